"""Buckets: if one artifact does not take all sizes that the submitter lists, each size has an artifact of its own."""

import itertools
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import orjson

from tracehouse.artifact.conversion_attempt import ConversionAttempt
from tracehouse.contract.contract import Contract, MethodContract
from tracehouse.contract.dims import parse_dim, symbols_of
from tracehouse.contract.input_spec import InputSpec
from tracehouse.contract.regions import Span
from tracehouse.errors import TraceError
from tracehouse.findings import submissions
from tracehouse.findings.finding import Finding
from tracehouse.findings.kinds import Kind
from tracehouse.findings.remedies import LIST_BUCKETS
from tracehouse.spec.conversion import Conversion
from tracehouse.spec.trace_spec import TraceSpec
from workers.device_trace import DeviceResult

_DETAIL_MAX_CHARACTERS = 1000
# A further bucket is begun while this many times the slowest one's time is left: all of them are packed after that.
_TIMES_LEFT = 2.0

Sizes = Mapping[str, Sequence[Span]]
Convert = Callable[[Conversion], DeviceResult]


def make_buckets(result: DeviceResult, spec: TraceSpec, convert: Convert, until: float) -> list[DeviceResult]:
    """Return what is to stand behind the model on this device: the one result, or one for each listed size.

    A bucket that is rejected is left out, unless unsound artifacts are accepted or none is better. Where a size stays
    baked in and no buckets were asked for, the remedy says how to ask for them.
    """
    for symbol, sizes in spec.buckets.items():
        if result.is_rejected:
            return [result]
        if all(takes(result.verification.contract, symbol, size) for size in sizes):
            return [result.with_findings([*result.check.findings, submissions.buckets_not_needed(symbol, sizes)])]
        return _BucketMaker(result, spec, convert, until, symbol).make(sizes)
    return [offer_buckets(result, spec)]


def takes(contract: Contract, symbol: str, size: int) -> bool:
    """Whether the contract takes that size with all other sizes with which it takes the example's."""
    methods = [one for one in contract.methods.values() if any(symbol in region.spans for region in one.regions)]
    return bool(methods) and all(_goes_with_all(method, symbol, size) for method in methods)


def offer_buckets(result: DeviceResult, spec: TraceSpec) -> DeviceResult:
    """Let the remedy of each baked size offer buckets, and say which members to add to the request where that helps."""
    if spec.source.archive is not None:
        return result
    offer = LIST_BUCKETS
    baked = next(_baked_dims(result.verification.contract), None)
    if baked is not None and not result.is_rejected:
        members = orjson.dumps(_members(result.verification.contract, *baked, spec)).decode()
        offer = f"or send {members} as well: one artifact is made for each of these sizes"
    return result.with_findings(
        [_with_offer(one, offer) if one.kind == Kind.BAKED_SIZE else one for one in result.check.findings]
    )


def free_symbol(method: MethodContract) -> str:
    """Return a name for the size of the buckets that no other size has."""
    taken = {
        symbol for one in method.inputs for dim in one.shape if isinstance(dim, str) for symbol in symbols_of([dim])
    }
    names = itertools.chain(["length"], (f"length{number}" for number in itertools.count(2)))
    return next(name for name in names if name not in taken)


class _BucketMaker:
    """Makes an artifact for each listed size of one symbol, where one artifact does not take them all."""

    def __init__(self, general: DeviceResult, spec: TraceSpec, convert: Convert, until: float, symbol: str) -> None:
        self._general = general
        self._spec = spec
        self._convert = convert
        self._until = until
        self._symbol = symbol
        self._slowest_s = 0.0

    def make(self, sizes: Sequence[int]) -> list[DeviceResult]:
        trials = {size: self._try(size) for size in sizes}
        results = {size: one for size, one in trials.items() if isinstance(one, DeviceResult)}
        sound = {size: one for size, one in results.items() if not one.is_rejected}
        registered = results if self._spec.accept_unsound else sound or results
        left_out = [*_left_out(self._symbol, trials, registered)]
        if not registered:
            attempts = [*self._attempts_before(kept=True), *self._attempts(trials, None)]
            return [_with_notes(self._general, attempts, left_out)]
        before = self._attempts_before(kept=False)
        return [
            _with_notes(one, [*before, *self._attempts(trials, size)], left_out) for size, one in registered.items()
        ]

    def _try(self, size: int) -> DeviceResult | str:
        """Return the bucket's result, or why there is none."""
        left_s = self._until - time.monotonic()
        if left_s < _TIMES_LEFT * self._slowest_s:
            return f"not tried: only {max(0.0, left_s):.0f} s of the request's time were left"
        began = time.monotonic()
        try:
            return self._convert(self._conversion(size))
        except TraceError as error:
            if error.fault == "service":
                raise
            return error.detail
        finally:
            self._slowest_s = max(self._slowest_s, time.monotonic() - began)

    def _conversion(self, size: int) -> Conversion:
        return self._general.conversion.model_copy(update={"sizes": {self._symbol: size}})

    def _attempts_before(self, *, kept: bool) -> list[ConversionAttempt]:
        """Return what was tried before there were buckets."""
        conversion, verdict = str(self._general.conversion), self._general.check.verdict
        attempts = [*self._general.attempts] or [ConversionAttempt(way=conversion, verdict=verdict, kept=True)]
        return attempts if kept else [one.model_copy(update={"kept": False}) for one in attempts]

    def _attempts(self, trials: Mapping[int, DeviceResult | str], kept: int | None) -> Iterator[ConversionAttempt]:
        for size, one in trials.items():
            conversion = str(self._conversion(size))
            if isinstance(one, str):
                yield ConversionAttempt(way=conversion, verdict=None, kept=False, detail=one[:_DETAIL_MAX_CHARACTERS])
            else:
                yield ConversionAttempt(way=conversion, verdict=one.check.verdict, kept=size == kept)


def _with_notes(
    result: DeviceResult, attempts: Sequence[ConversionAttempt], left_out: Iterable[Finding]
) -> DeviceResult:
    findings = [*result.check.findings, *left_out]
    return result.with_attempts(attempts).with_findings(findings)


def _left_out(symbol: str, trials: Mapping[int, DeviceResult | str], registered: Collection[int]) -> Iterator[Finding]:
    for size, one in trials.items():
        if size not in registered:
            yield submissions.bucket_left_out(symbol, size, one if isinstance(one, str) else "it was rejected")


def _goes_with_all(method: MethodContract, symbol: str, size: int) -> bool:
    example = method.example_sizes
    at_size = _beside(method, symbol, size)
    if example is None or not at_size:
        return bool(at_size)
    return all(any(_lies_in(one, other) for other in at_size) for one in _beside(method, symbol, example[symbol]))


def _beside(method: MethodContract, symbol: str, size: int) -> list[Sizes]:
    """Return the other symbols' sizes in the regions that have this size."""
    return [
        {other: spans for other, spans in region.whole_spans.items() if other != symbol}
        for region in method.regions
        if any(size in span for span in region.whole_spans.get(symbol, []))
    ]


def _lies_in(one: Sizes, other: Sizes) -> bool:
    return all(
        any(_is_within(span, whole) for whole in other[symbol]) for symbol, spans in one.items() for span in spans
    )


def _is_within(span: Span, whole: Span) -> bool:
    return span.low in whole and span.high in whole and (span.low == span.high or span.step % whole.step == 0)


def _baked_dims(contract: Contract) -> Iterator[tuple[str, InputSpec, str]]:
    return (
        (name, one, dim)
        for name, method in contract.methods.items()
        for one in method.inputs
        for dim, reason in one.fixed.items()
        if reason == "trace"
    )


def _members(contract: Contract, name: str, one: InputSpec, dim: str, spec: TraceSpec) -> dict[str, object]:
    """Return what to add to the request: the buckets and, where the dim is not declared, the dims that vary."""
    size = one.example[int(dim)]
    declared = spec.calls[name].dynamic
    expression = declared.get(one.name, {}).get(dim)
    terms = parse_dim(expression).terms if expression is not None else ()
    method = contract.methods[name]
    symbol = terms[0][0] if terms else free_symbol(method)
    buckets: dict[str, object] = {"buckets": {symbol: sorted({size, 2 * size or 1})}}
    if terms:
        return buckets
    dynamic = {
        each.name: {**_dims_that_vary(each, size, symbol), **declared.get(each.name, {})} for each in method.inputs
    }
    dynamic = {path: dims for path, dims in dynamic.items() if dims}
    return (
        {"dynamic": dynamic, **buckets} if name == "forward" else {"methods": {name: {"dynamic": dynamic}}, **buckets}
    )


def _dims_that_vary(one: InputSpec, size: int, symbol: str) -> dict[str, str]:
    """Return the dims of an input that the check found to vary, and those that are baked at this size, by the symbol.

    All are named, because a request that declares one dim keeps the example's size in all that it does not declare.
    """
    varying = {str(place): dim for place, dim in enumerate(one.shape) if isinstance(dim, str)}
    baked = {dim: symbol for dim, reason in one.fixed.items() if reason == "trace" and one.example[int(dim)] == size}
    return dict(sorted((varying | baked).items(), key=lambda named: int(named[0])))


def _with_offer(finding: Finding, offer: str) -> Finding:
    remedy = f"{finding.remedy}; {offer}" if finding.remedy else offer
    return finding.model_copy(update={"remedy": remedy})
