"""Contract violations: errors that say which clause is broken, what is allowed, on what basis, and the remedy.

Each function returns the error; the caller raises it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tracehouse.contract.dims import SizeConflict, SymbolicShape, format_shape, format_sizes
from tracehouse.contract.input_spec import InputSpec, Reason
from tracehouse.contract.memory import ELEMENTS_MAX, Memory, format_mib
from tracehouse.contract.regions import Basis, Region, Span
from tracehouse.errors import (
    DatatypeMismatch,
    ShapeMismatch,
    SizeOutOfRange,
    SizesDisagree,
    TooMuchMemory,
    ValueOutOfRange,
)

# A problem document lists only this much of what is allowed; the manifest has all of it. Chosen, to keep a reply short.
_SPANS_SHOWN = 8
_SPANS_MAX = 100
_REGIONS_SHOWN = 4
_DIMS_SHOWN = 4

_BEST_FIRST: list[Basis] = ["proven", "sampled", "tested", "observed"]
_WHY: dict[Reason, str] = {
    "model": "the model takes no other size there",
    "trace": "that size is baked into the trace, which answers other sizes wrongly",
    "untried": "no other size was tried there",
}
_TRACE_AGAIN = "trace the model again with them in `buckets`, or with `mode` auto, which scripts what a trace bakes in."
_REMEDIES: dict[Reason, str] = {
    "model": "Send that size: the model takes no other.",
    "trace": f"Send that size. For other sizes, {_TRACE_AGAIN}",
    "untried": "Send that size. For other sizes, trace the model again with the dim in `dynamic`, or with a call of "
    "another size in `check.check_inputs`.",
}

_NOT_WRONG = f"Send other sizes: the contract's `regions` say which are right. For these, {_TRACE_AGAIN}"
_EVEN_ROWS = "Give all lists of one level the same length, for instance by padding them."
_ANOTHER_RANK = (
    " If the model takes another rank, trace it again with an input of that rank in `check.samples` or "
    "`check.check_inputs`."
)


def datatype_mismatch(spec: InputSpec, actual: str) -> DatatypeMismatch:
    """Describe an input with another datatype than the contract's."""
    return DatatypeMismatch(
        f"input {spec.name!r} is {actual}, not {' or '.join(spec.accepted_datatypes)}",
        input=spec.name, expected=spec.datatype.value, actual=actual, basis="observed",
    )  # fmt: skip


def shape_mismatch(spec: InputSpec, actual: list[int] | str, others: Sequence[SymbolicShape] = ()) -> ShapeMismatch:
    """Describe a shape with another number of dims, or nested lists of unequal lengths (then `actual` is a text).

    `others` are the shapes of other ranks that the input may have. If `actual` has one of these ranks, the other inputs
    have ranks that do not go with it.
    """
    apart = [shape for shape in others if isinstance(actual, str) or len(shape) != len(actual)]
    beside = ": it may have that rank only beside other ranks of the other inputs" if len(apart) < len(others) else ""
    shapes = dict.fromkeys([format_shape(spec.shape), *map(format_shape, apart)])
    ranks = sorted({len(spec.shape), *map(len, apart)})
    remedy = f"Send {' or '.join(map(str, ranks))} dims, as {'the example' if len(ranks) == 1 else 'the examples'} of "
    return ShapeMismatch(
        f"input {spec.name!r} is {actual}, not {' or '.join(shapes)}{beside}",
        input=spec.name, expected=list(spec.shape), actual=actual, basis="observed",
        remedy=_EVEN_ROWS if isinstance(actual, str) else f"{remedy}the trace had.{_ANOTHER_RANK}",
    )  # fmt: skip


def fixed_dim_mismatch(spec: InputSpec, dim: int, actual: Sequence[int]) -> ShapeMismatch:
    """Describe a dim, by its index, whose size differs from the only size that it may have."""
    reason = spec.reason(dim)
    basis: Basis = "observed" if reason == "untried" else "tested"
    allowed = Span(low=spec.example[dim], high=spec.example[dim])
    return ShapeMismatch(
        f"input {spec.name!r} is {list(actual)}, not {format_shape(spec.shape)}: dim {dim} must be {spec.shape[dim]}, "
        f"because {_WHY[reason]}",
        input=spec.name, dim=dim, size=actual[dim], allowed=[_span(allowed, basis)],
        expected=list(spec.shape), actual=list(actual), reason=reason,
        basis=basis, remedy=_REMEDIES[reason],
    )  # fmt: skip


def sizes_disagree(
    inputs: Sequence[InputSpec], shapes: Sequence[Sequence[int]], conflict: SizeConflict
) -> SizesDisagree:
    """Describe dims that share a symbol and give it two sizes. `shapes` were sent, in the order of `inputs`."""
    spec, size = inputs[conflict.shape], shapes[conflict.shape][conflict.dim]
    dim = spec.shape[conflict.dim]
    others = [_place(inputs[shape], place, shapes[shape][place]) for shape, place in conflict.because]
    known = ", ".join(
        f"{symbol} is {value} by dim {other['dim']} of input {other['input']!r}"
        for (symbol, value), other in zip(conflict.sizes.items(), others, strict=True)
    )
    rule = f"it is {dim}, and {known}" if known else f"it is {dim}, with whole numbers from 0 on"
    must = "cannot be that" if conflict.expected is None else f"must be {conflict.expected}"
    return SizesDisagree(
        f"dim {conflict.dim} of input {spec.name!r} is {size}, and {must}: {rule}",
        input=spec.name, dim=conflict.dim, size=size, expected=conflict.expected, expression=str(dim),
        sizes=conflict.sizes, others=others, basis="tested",
    )  # fmt: skip


def size_out_of_range(
    inputs: Sequence[InputSpec], regions: Sequence[Region], sizes: Mapping[str, int]
) -> SizeOutOfRange:
    """Describe sizes, one for each symbol, that lie in no region."""
    outside = [{*region.symbols_outside(sizes)} for region in regions]
    for symbol in sizes:
        if beside := [region for region, symbols in zip(regions, outside, strict=True) if symbols == {symbol}]:
            return _one_out_of_range(inputs, symbol, sizes, beside, others_fit=True)
    for symbol in sizes:
        if all(symbol in symbols for symbols in outside):
            return _one_out_of_range(inputs, symbol, sizes, regions, others_fit=False)
    shown = [(_shorten(region), region.basis) for region in regions[:_REGIONS_SHOWN]]
    together = "; or ".join(f"{region} ({basis})" for region, basis in shown)
    return SizeOutOfRange(
        f"the artifact is not known to be right for {format_sizes(sizes)} together; it is right for: {together}"
        f"{_and_more(len(regions) - _REGIONS_SHOWN)}",
        sizes=dict(sizes), dims=[dim for symbol in sizes for dim in _dims_of(inputs, symbol, sizes)],
        allowed=[region.model_dump(mode="json") for region, _ in shown],
    )  # fmt: skip


def wrong_sizes(inputs: Sequence[InputSpec], sizes: Mapping[str, int]) -> SizeOutOfRange:
    """Describe sizes at which the artifact and the model gave different answers."""
    return SizeOutOfRange(
        f"the artifact is wrong for {format_sizes(sizes)}: its answer differed from the model's in the check",
        sizes=dict(sizes), dims=[dim for symbol in sizes for dim in _dims_of(inputs, symbol, sizes)],
        reason="trace", basis="tested", remedy=_NOT_WRONG,
    )  # fmt: skip


def too_much_memory(
    inputs: Sequence[InputSpec], memory: Memory, sizes: Mapping[str, int], memory_max_bytes: int | None
) -> TooMuchMemory:
    """Describe sizes that are proven, and at which a call needs more memory than it may use."""
    needed, elements = memory.needed_bytes(sizes), memory.largest_elements(sizes)
    if memory_max_bytes is not None and needed > memory_max_bytes:
        why = f"needs up to {format_mib(needed)} of memory, and may use {format_mib(memory_max_bytes)}"
    else:
        why = f"may make a tensor of {elements} elements, and {ELEMENTS_MAX} are allowed"
    return TooMuchMemory(
        f"a call with {format_sizes(sizes)} {why}: by the contract's clause `memory` it needs {memory}",
        sizes=dict(sizes), dims=[dim for symbol in sizes for dim in _dims_of(inputs, symbol, sizes)],
        clause="memory", needed_bytes=needed, limit_bytes=memory_max_bytes,
        elements=elements, elements_max=ELEMENTS_MAX, basis="proven",
    )  # fmt: skip


def value_out_of_range(spec: InputSpec, place: list[int], value: int) -> ValueOutOfRange:
    """Describe a value that the model raises on. `place` is its index in each dim of the input."""
    assert spec.values is not None
    low, high = spec.values.low, spec.values.high
    allowed = f"at least {low}" if high is None else f"at most {high}" if low is None else f"{low} to {high}"
    return ValueOutOfRange(
        f"input {spec.name!r} has {value} at {place}; allowed are values {allowed} ({spec.values.basis}): the model "
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
    """Describe one symbol whose size lies outside the regions. `others_fit`: the sizes of all others lie inside."""
    size, dims = sizes[symbol], _dims_of(inputs, symbol, sizes)
    others = {other: size for other, size in sizes.items() if other != symbol}
    allowed = _merge_spans((span, region.basis) for region in regions for span in region.whole_spans[symbol])
    given = f" with {format_sizes(others)}" if others and others_fit else ""
    low, high = min(size, *(span.low for span, _ in allowed)), max(size, *(span.high for span, _ in allowed))
    wanted = f'`sizes` {{"{symbol}": {{"low": {low}, "high": {high}}}}}'
    return SizeOutOfRange(
        f"{symbol} is {size} ({_list_dims(dims)});{given} it may be {_list_spans(allowed)}: no other size is known "
        "to be right",
        input=dims[0]["input"], dim=dims[0]["dim"], symbol=symbol, size=size, sizes=dict(sizes), dims=dims,
        allowed=[_span(span, basis) for span, basis in allowed[:_SPANS_MAX]],
        basis=allowed[0][1] if len({basis for _, basis in allowed}) == 1 else "mixed",
        remedy=f"Send one of those sizes. If the model takes {symbol} {size}, trace it again with {wanted}, or with a "
        "call of this size in `check.check_inputs`.",
    )  # fmt: skip


def _list_dims(dims: Sequence[dict[str, Any]]) -> str:
    named = ", ".join(f"dim {dim['dim']} of input {dim['input']!r}" for dim in dims[:_DIMS_SHOWN])
    return named + _and_more(len(dims) - _DIMS_SHOWN)


def _list_spans(spans: Sequence[tuple[Span, Basis]]) -> str:
    named = " or ".join(f"{span} ({basis})" for span, basis in spans[:_SPANS_SHOWN])
    return named + _and_more(len(spans) - _SPANS_SHOWN)


def _shorten(region: Region) -> Region:
    return region.model_copy(update={"spans": {symbol: spans[:_SPANS_SHOWN] for symbol, spans in region.spans.items()}})


def _merge_spans(spans: Iterable[tuple[Span, Basis]]) -> list[tuple[Span, Basis]]:
    """Merge adjacent spans of the same basis, and drop spans that a wider one covers on an equal or better basis."""
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
    """Whether the other span covers this one, on an equal or better basis."""
    covers = other[0].step == 1 and other[0].low <= one[0].low and one[0].high <= other[0].high
    return covers and _BEST_FIRST.index(other[1]) <= _BEST_FIRST.index(one[1])


def _dims_of(inputs: Iterable[InputSpec], symbol: str, sizes: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return the dims whose expression has the symbol, each with its input and size."""
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


def _and_more(number: int) -> str:
    return f" and {number} more" if number > 0 else ""
