"""Refusals: which clause of a contract inputs break, what is allowed there, how that is known, and what to do."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tracehouse.contract.dims import Conflict, listed
from tracehouse.contract.input_spec import InputSpec, Reason
from tracehouse.contract.regions import Basis, Region, Span
from tracehouse.errors import DatatypeMismatch, ShapeMismatch, SizeOutOfRange, SizesDisagree, ValueOutOfRange

# A problem tells no more of what a contract takes: the manifest has it all.
_SPANS_SHOWN = 8
_SPANS_MAX = 100
_REGIONS_SHOWN = 4
_DIMS_SHOWN = 4

_BEST_FIRST: list[Basis] = ["proven", "sampled", "tested", "observed"]
_WHY: dict[Reason, str] = {
    "model": "the model itself takes no other size there",
    "trace": "the trace has that size baked in, and answers others wrongly",
    "untried": "no other size was tried there",
}
_INSTEAD: dict[Reason, str] = {
    "model": "Send that size: the model takes no other one.",
    "trace": "Send that size, or trace the model again with the sizes that are needed as `buckets`, or with `mode` "
    "auto, which scripts what a trace bakes in.",
    "untried": "Send that size, or trace the model again with the dim under `dynamic`, or with a call of this size "
    "among `check.check_inputs`.",
}


def datatype_mismatch(spec: InputSpec, actual: str) -> DatatypeMismatch:
    return DatatypeMismatch(
        f"input {spec.name!r} is {actual}, not {spec.datatype}",
        input=spec.name, expected=spec.datatype.value, actual=actual, basis="observed",
    )  # fmt: skip


def shape_mismatch(spec: InputSpec, actual: list[int] | str) -> ShapeMismatch:
    """Of a shape that has another number of dims, or of nested lists that spell none."""
    return ShapeMismatch(
        f"input {spec.name!r} is {actual}, not {_shown(spec)}",
        input=spec.name, expected=list(spec.shape), actual=actual, basis="observed",
        remedy=f"Send {len(spec.shape)} dims, as the example of the trace had.",
    )  # fmt: skip


def fixed_otherwise(spec: InputSpec, dim: int, actual: Sequence[int]) -> ShapeMismatch:
    """Of a dim that has one size alone."""
    reason = spec.reason(dim)
    basis: Basis = "observed" if reason == "untried" else "tested"
    allowed = Span(low=spec.example[dim], high=spec.example[dim])
    return ShapeMismatch(
        f"input {spec.name!r} is {list(actual)}, not {_shown(spec)}: dim {dim} has to be {spec.shape[dim]}, for "
        f"{_WHY[reason]}",
        input=spec.name, dim=dim, size=actual[dim], allowed=[_span(allowed, basis)],
        expected=list(spec.shape), actual=list(actual), reason=reason,
        basis=basis, remedy=_INSTEAD[reason],
    )  # fmt: skip


def sizes_disagree(inputs: Sequence[InputSpec], shapes: Sequence[Sequence[int]], conflict: Conflict) -> SizesDisagree:
    """Of dims that have a symbol in common, and no size of it in common."""
    spec, size = inputs[conflict.shape], shapes[conflict.shape][conflict.dim]
    dim = spec.shape[conflict.dim]
    others = [_place(inputs[shape], place, shapes[shape][place]) for shape, place in conflict.because]
    known = ", ".join(
        f"{symbol} is {value} by dim {other['dim']} of input {other['input']!r}"
        for (symbol, value), other in zip(conflict.sizes.items(), others, strict=True)
    )
    is_to_be = f"it is {dim}, and {known}" if known else f"it is {dim}, for whole numbers from 0 on"
    has_to = "cannot be that" if conflict.expected is None else f"has to be {conflict.expected}"
    return SizesDisagree(
        f"dim {conflict.dim} of input {spec.name!r} is {size}, and {has_to}: {is_to_be}",
        input=spec.name, dim=conflict.dim, size=size, expected=conflict.expected, expression=str(dim),
        sizes=conflict.sizes, others=others, basis="tested",
    )  # fmt: skip


def size_out_of_range(
    inputs: Sequence[InputSpec], regions: Sequence[Region], sizes: Mapping[str, int]
) -> SizeOutOfRange:
    """Of sizes that go together, and lie in no region."""
    missed = [{*region.missed(sizes)} for region in regions]
    for symbol in sizes:
        if beside := [region for region, symbols in zip(regions, missed, strict=True) if symbols == {symbol}]:
            return _one_out_of_range(inputs, symbol, sizes, beside, others_fit=True)
    for symbol in sizes:
        if all(symbol in symbols for symbols in missed):
            return _one_out_of_range(inputs, symbol, sizes, regions, others_fit=False)
    shown = [(_shortened(region), region.basis) for region in regions[:_REGIONS_SHOWN]]
    together = "; or ".join(f"{region} ({basis})" for region, basis in shown)
    return SizeOutOfRange(
        f"{listed(sizes)} do not go together; those that do are: {together}{_more(len(regions) - _REGIONS_SHOWN)}",
        sizes=dict(sizes), dims=[dim for symbol in sizes for dim in _dims_of(inputs, symbol, sizes)],
        allowed=[region.model_dump(mode="json") for region, _ in shown],
    )  # fmt: skip


def known_wrong(inputs: Sequence[InputSpec], sizes: Mapping[str, int]) -> SizeOutOfRange:
    """Of sizes that the artifact was seen to answer otherwise than the model."""
    return SizeOutOfRange(
        f"the artifact is known to be wrong with {listed(sizes)}: it was seen to answer otherwise than the model",
        sizes=dict(sizes), dims=[dim for symbol in sizes for dim in _dims_of(inputs, symbol, sizes)],
        reason="trace", basis="tested", remedy=_INSTEAD["trace"],
    )  # fmt: skip


def value_out_of_range(spec: InputSpec, place: list[int], value: int) -> ValueOutOfRange:
    assert spec.values is not None
    low, high = spec.values.low, spec.values.high
    allowed = f"at least {low}" if high is None else f"at most {high}" if low is None else f"{low} to {high}"
    return ValueOutOfRange(
        f"input {spec.name!r} has {value} at {place}, and its values are {allowed} ({spec.values.basis}): the model "
        "raises on others",
        input=spec.name, value=value, place=place, allowed={"low": low, "high": high}, basis=spec.values.basis,
        remedy=f"Send values of {spec.name!r} that are {allowed}.",
    )  # fmt: skip


def _one_out_of_range(
    inputs: Sequence[InputSpec],
    symbol: str,
    sizes: Mapping[str, int],
    regions: Iterable[Region],
    *,
    others_fit: bool,
) -> SizeOutOfRange:
    """Of the one size that is to be another one; those in the regions would do."""
    size, dims = sizes[symbol], _dims_of(inputs, symbol, sizes)
    others = {other: size for other, size in sizes.items() if other != symbol}
    allowed = _joined((span, region.basis) for region in regions for span in region.spans[symbol])
    given = f" with {listed(others)}" if others and others_fit else ""
    wanted = f'`sizes` {{"{symbol}": {{"low": {size}, "high": {size}}}}}'
    return SizeOutOfRange(
        f"{symbol} is {size} ({_where(dims)}), and{given} may be {_either(allowed)}: no other size is known to be "
        "answered rightly",
        input=dims[0]["input"], dim=dims[0]["dim"], symbol=symbol, size=size, sizes=dict(sizes), dims=dims,
        allowed=[_span(span, basis) for span, basis in allowed[:_SPANS_MAX]],
        basis=allowed[0][1] if len({basis for _, basis in allowed}) == 1 else "mixed",
        remedy=f"Send one of those sizes. If the model itself takes {symbol} {size}, which the contract does not tell, "
        f"trace it again with {wanted}, or with a call of this size among `check.check_inputs`.",
    )  # fmt: skip


def _where(dims: Sequence[dict[str, Any]]) -> str:
    named = ", ".join(f"dim {dim['dim']} of input {dim['input']!r}" for dim in dims[:_DIMS_SHOWN])
    return named + _more(len(dims) - _DIMS_SHOWN)


def _either(spans: Sequence[tuple[Span, Basis]]) -> str:
    named = " or ".join(f"{span} ({basis})" for span, basis in spans[:_SPANS_SHOWN])
    return named + _more(len(spans) - _SPANS_SHOWN)


def _shortened(region: Region) -> Region:
    return region.model_copy(update={"spans": {symbol: spans[:_SPANS_SHOWN] for symbol, spans in region.spans.items()}})


def _joined(spans: Iterable[tuple[Span, Basis]]) -> list[tuple[Span, Basis]]:
    """In their order; those that follow one another, and are known alike, as one, and none that is known better."""
    joined: list[tuple[Span, Basis]] = []
    for span, basis in sorted(set(spans), key=lambda one: (one[1], one[0].step, one[0].low, one[0].high)):
        last = joined[-1] if joined else None
        if last and last[1] == basis and last[0].step == span.step == 1 and span.low <= last[0].high + 1:
            joined[-1] = Span(low=last[0].low, high=max(span.high, last[0].high)), basis
            continue
        joined.append((span, basis))
    wide = [one for one in joined if one[0].high > one[0].low][:_SPANS_MAX]
    known_best = [one for one in joined if not any(_is_within(one, other) for other in wide if other is not one)]
    return sorted(known_best, key=lambda one: (one[0].low, one[0].high))


def _is_within(one: tuple[Span, Basis], other: tuple[Span, Basis]) -> bool:
    """Whether the other one says more than this one does."""
    covers = other[0].step == 1 and other[0].low <= one[0].low and one[0].high <= other[0].high
    return covers and _BEST_FIRST.index(other[1]) <= _BEST_FIRST.index(one[1])


def _dims_of(inputs: Iterable[InputSpec], symbol: str, sizes: Mapping[str, int]) -> list[dict[str, Any]]:
    """Where the symbol stands, in whatever expression."""
    return [
        _place(spec, place, dim.at(sizes))
        for spec in inputs
        for place, dim in spec.expressions.items()
        if symbol in dict(dim.terms)
    ]


def _place(spec: InputSpec, dim: int, size: int) -> dict[str, Any]:
    return {"input": spec.name, "dim": dim, "size": size}


def _span(span: Span, basis: Basis) -> dict[str, Any]:
    return {**span.model_dump(), "basis": basis}


def _more(number: int) -> str:
    return f" and {number} more" if number > 0 else ""


def _shown(spec: InputSpec) -> str:
    return f"[{', '.join(map(str, spec.shape))}]"
