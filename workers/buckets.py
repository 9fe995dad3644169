"""Buckets: where one artifact does not take all sizes that the submitter lists, one for each of them."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import orjson

from tracehouse.artifact.conversion_attempt import ConversionAttempt
from tracehouse.contract.contract import Contract, MethodContract
from tracehouse.contract.dims import parse_dim
from tracehouse.contract.input_spec import InputSpec
from tracehouse.contract.regions import Span
from tracehouse.errors import TraceError
from tracehouse.findings.remedies import ADVICE_ON_BUCKETS
from tracehouse.findings.trace_check import Finding, Verdict
from tracehouse.spec.conversion import Conversion
from tracehouse.spec.trace_spec import TraceSpec
from workers.device_trace import DeviceTrace

_DETAIL_MAX_CHARACTERS = 1000
# A further bucket is begun while so many times what the slowest took so far is left: all are packed after that.
_TIMES_LEFT = 2.0

Sizes = Mapping[str, Sequence[Span]]
Make = Callable[[Conversion], DeviceTrace]


def made(kept: DeviceTrace, spec: TraceSpec, make: Make, until: float) -> list[DeviceTrace]:
    """What is to stand behind the model on this device: `kept` alone, or one for each listed size.

    A bucket that is rejected is left out, unless unsound artifacts are accepted or none is better. Where a size stays
    baked in and no buckets were asked for, the remedy says how to ask for them.
    """
    for symbol, sizes in spec.buckets.items():
        if kept.check.verdict is Verdict.REJECTED:
            return [kept]
        if all(takes(kept.contract, symbol, size) for size in sizes):
            kept.findings = [*kept.findings, _not_needed(symbol, sizes)]
            return [kept]
        return _Buckets(kept, spec, make, until).of(symbol, sizes)
    baked = next(_baked_dims(kept.contract), None)
    if baked is not None and spec.source.archive is None and kept.check.verdict is not Verdict.REJECTED:
        members = orjson.dumps(_members(*baked, spec)).decode()
        offer = f"or send {members} as well: one artifact is made for each of these sizes"
        kept.findings = [_with_remedy(one, offer) if one.kind == "baked-size" else one for one in kept.findings]
    return [kept]


def takes(contract: Contract, symbol: str, size: int) -> bool:
    """Whether it takes that size with all other sizes that it takes the example's with."""
    methods = [one for one in contract.methods.values() if any(symbol in region.spans for region in one.regions)]
    return bool(methods) and all(_goes_with_all(method, symbol, size) for method in methods)


class _Buckets:
    def __init__(self, kept: DeviceTrace, spec: TraceSpec, make: Make, until: float) -> None:
        self._kept = kept
        self._spec = spec
        self._make = make
        self._until = until
        self._slowest_s = 0.0

    def of(self, symbol: str, sizes: Sequence[int]) -> list[DeviceTrace]:
        came = {size: self._one(symbol, size) for size in sizes}
        made = [one for one in came.values() if isinstance(one, DeviceTrace)]
        sound = [one for one in made if one.check.verdict is not Verdict.REJECTED]
        registered = made if self._spec.accept_unsound else sound or made
        if not registered:
            self._kept.attempts = [*self._before(kept=True), *self._tried(symbol, came, None)]
            self._kept.findings = [*map(_without_offer, self._kept.findings), *_left_out(symbol, came, [])]
            return [self._kept]
        for one in registered:
            one.attempts = [*self._before(kept=False), *self._tried(symbol, came, one)]
            one.findings = [*map(_without_offer, one.findings), *_left_out(symbol, came, registered)]
        return registered

    def _one(self, symbol: str, size: int) -> DeviceTrace | str:
        """Or why there is none."""
        left_s = self._until - time.monotonic()
        if left_s < _TIMES_LEFT * self._slowest_s:
            return f"not tried: only {max(0.0, left_s):.0f} s of the request's time were left"
        began = time.monotonic()
        try:
            return self._make(self._kept.way.model_copy(update={"sizes": {symbol: size}}))
        except TraceError as error:
            if error.fault == "service":
                raise
            return error.detail
        finally:
            self._slowest_s = max(self._slowest_s, time.monotonic() - began)

    def _before(self, *, kept: bool) -> list[ConversionAttempt]:
        """What was tried before there were buckets."""
        way, verdict = str(self._kept.way), self._kept.check.verdict
        tried = self._kept.attempts or [ConversionAttempt(way=way, verdict=verdict, kept=True)]
        return tried if kept else [one.model_copy(update={"kept": False}) for one in tried]

    def _tried(
        self, symbol: str, came: dict[int, DeviceTrace | str], kept: DeviceTrace | None
    ) -> Iterator[ConversionAttempt]:
        for size, one in came.items():
            way = str(self._kept.way.model_copy(update={"sizes": {symbol: size}}))
            if isinstance(one, str):
                yield ConversionAttempt(way=way, verdict=None, kept=False, detail=one[:_DETAIL_MAX_CHARACTERS])
            else:
                yield ConversionAttempt(way=way, verdict=one.check.verdict, kept=one is kept)


def _left_out(symbol: str, came: dict[int, DeviceTrace | str], registered: Sequence[DeviceTrace]) -> Iterator[Finding]:
    for size, one in came.items():
        if isinstance(one, DeviceTrace) and one in registered:
            continue
        why = one if isinstance(one, str) else "it was rejected"
        yield Finding(
            kind="bucket-left-out",
            detail=f"there is no artifact for {symbol} {size}, and requests of that size are refused: {why}"[
                :_DETAIL_MAX_CHARACTERS
            ],
            confirmed=True,
            evidence={"sizes": {symbol: size}},
            remedy="leave that size out of buckets, or submit a model that can be traced with it",
        )


def _not_needed(symbol: str, sizes: Sequence[int]) -> Finding:
    return Finding(
        kind="buckets-not-needed",
        detail=f"one artifact takes all listed sizes of {symbol} as it takes the example's, and its contract says "
        "which others",
        evidence={"symbol": symbol, "sizes": [*sizes]},
        remedy="leave out buckets",
    )


def _goes_with_all(method: MethodContract, symbol: str, size: int) -> bool:
    example = method.example_sizes
    at_size = _beside(method, symbol, size)
    if example is None or not at_size:
        return bool(at_size)
    return all(any(_lies_in(one, other) for other in at_size) for one in _beside(method, symbol, example[symbol]))


def _beside(method: MethodContract, symbol: str, size: int) -> list[Sizes]:
    """The sizes of the other symbols, in the regions that have this one."""
    return [
        {other: spans for other, spans in region.spans.items() if other != symbol}
        for region in method.regions
        if any(size in span for span in region.spans.get(symbol, []))
    ]


def _lies_in(one: Sizes, other: Sizes) -> bool:
    return all(any(_is_part(span, whole) for whole in other[symbol]) for symbol, spans in one.items() for span in spans)


def _is_part(span: Span, whole: Span) -> bool:
    return span.low in whole and span.high in whole and (span.low == span.high or span.step % whole.step == 0)


def _baked_dims(contract: Contract) -> Iterator[tuple[str, InputSpec, str]]:
    return (
        (name, one, dim)
        for name, method in contract.methods.items()
        for one in method.inputs
        for dim, reason in one.fixed.items()
        if reason == "trace"
    )


def _members(method: str, one: InputSpec, dim: str, spec: TraceSpec) -> dict[str, object]:
    """What to add to the request: the buckets and, where nobody has declared the dim, which one they are of."""
    size = one.example[int(dim)]
    declared = spec.calls[method].dynamic.get(one.name, {}).get(dim)
    terms = parse_dim(declared).terms if declared is not None else ()
    symbol = terms[0][0] if terms else "length"
    buckets: dict[str, object] = {"buckets": {symbol: sorted({size, 2 * size or 1})}}
    if terms:
        return buckets
    dynamic = {one.name: {dim: symbol}}
    return (
        {"dynamic": dynamic, **buckets}
        if method == "forward"
        else {"methods": {method: {"dynamic": dynamic}}, **buckets}
    )


def _with_remedy(finding: Finding, offer: str) -> Finding:
    before = _without_offer(finding).remedy
    remedy = f"{before}; {offer}" if before else offer
    return finding.model_copy(update={"remedy": remedy})


def _without_offer(finding: Finding) -> Finding:
    """Of what stands in it for those who have not heard of buckets."""
    if finding.remedy is None:
        return finding
    return finding.model_copy(update={"remedy": finding.remedy.replace(ADVICE_ON_BUCKETS, "")})
