"""Size coverage: how many of the sizes that a request wants are accepted by a version, and which is missing first."""

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from pydantic import Field

from tracehouse.contract.box_cover import (
    Effort,
    Limits,
    Sizes,
    TooManySizes,
    count_covered,
    find_first_uncovered,
)
from tracehouse.contract.contract import Contract, MethodContract
from tracehouse.contract.dims import SIZE_MAX, SymbolicShape, shape_at, solve_or_conflict
from tracehouse.contract.region_cover import limits_of_regions
from tracehouse.contract.regions import Span
from tracehouse.errors import ContractViolation
from tracehouse.frozen import Frozen
from tracehouse.tensors.tensor import TensorSpec

# Numbers in JSON are exact up to here.
COUNT_MAX = 2**53
_REASON_MAX_CHARACTERS = 500
_TOO_MANY = "the contract has too many sizes for an exact count"

Dynamic = Mapping[str, Mapping[str, str]]


class SizeCoverage(Frozen):
    """How many of the sizes that a request wants of one method the contract accepts.

    With buckets, the artifacts of all buckets on the device count together.
    """

    method: str
    requested: int = Field(
        description="How many combinations of sizes the request's `sizes` has for this method. Symbols that `sizes` "
        "leaves out have the example's size."
    )
    covered: int = Field(description="How many of them the contract accepts, on any basis but an open contract.")
    exact: bool = Field(True, description="False: both numbers are at least so large.")
    missing: dict[str, int] = Field({}, description="The first combination that is missing, by symbol.")
    reason: str | None = Field(None, description="Why that one is missing: what a request of these sizes is told.")

    @property
    def is_complete(self) -> bool:
        """Whether it is known that no size is missing."""
        return self.exact and self.covered == self.requested

    def __str__(self) -> str:
        least = "" if self.exact else "at least "
        return f"{least}{self.covered} of {least}{self.requested} sizes of {self.method}"


def cover_sizes(
    contracts: Sequence[Contract], dynamic: Mapping[str, Dynamic], sizes: Mapping[str, Sequence[Span]]
) -> list[SizeCoverage]:
    """Return the coverage of each method that has a symbol of `sizes`.

    `contracts` are those of one version for one device: more than one if there are buckets. `dynamic` has the declared
    dims of every method, and the spans of a symbol have no size in common. A symbol that no method has is not covered.
    """
    return [*_coverages(contracts, dynamic, sizes)] if sizes else []


def _coverages(
    contracts: Sequence[Contract], dynamic: Mapping[str, Dynamic], sizes: Mapping[str, Sequence[Span]]
) -> Iterator[SizeCoverage]:
    effort = Effort()
    unknown = {**sizes}
    for name, declared in dynamic.items():
        methods = [contract.methods[name] for contract in contracts]
        wanted = _with_declared_shapes(methods[0], declared)
        of_method = {symbol: spans for symbol, spans in sizes.items() if symbol in wanted.symbols}
        for symbol in of_method:
            unknown.pop(symbol, None)
        if of_method:
            yield _cover(name, wanted, of_method, methods, effort)
    if unknown:
        without = next((name for name, declared in dynamic.items() if not declared), next(iter(dynamic)))
        yield SizeCoverage(
            method=without,
            requested=_count(unknown),
            covered=0,
            exact=_count(unknown) < COUNT_MAX,
            missing={symbol: spans[0].low for symbol, spans in unknown.items()},
            reason=f"no dim of the contract has a size {next(iter(unknown))!r}: declare it in `dynamic`",
        )


def _with_declared_shapes(method: MethodContract, declared: Dynamic) -> MethodContract:
    """Return a contract with the shapes that were declared, and without outputs, to compare others with.

    If nothing was declared, the shapes are the contract's own.
    """
    if not declared:
        return method.model_copy(update={"outputs": []})
    shapes: dict[str, SymbolicShape] = {
        spec.name: tuple(declared.get(spec.name, {}).get(str(dim), size) for dim, size in enumerate(spec.example))
        for spec in method.inputs
    }
    inputs = [spec.model_copy(update={"shape": shapes[spec.name]}) for spec in method.inputs]
    return method.model_copy(update={"inputs": inputs, "outputs": []})


def _cover(
    name: str,
    wanted: MethodContract,
    sizes: Mapping[str, Sequence[Span]],
    methods: Sequence[MethodContract],
    effort: Effort,
) -> SizeCoverage:
    box: dict[str, Sizes] = {symbol: [*map(_range, spans)] for symbol, spans in sizes.items()}
    example = solve_or_conflict([(spec.shape, spec.example) for spec in wanted.inputs])
    beside = (
        {symbol: size for symbol, size in example.items() if symbol not in box} if isinstance(example, dict) else {}
    )
    requested = _count(sizes)
    limits: list[Limits] = []
    try:
        limits, is_whole = limits_of_regions(wanted, beside, methods, effort)
        covered = count_covered(box, limits, effort)
        missing = find_first_uncovered(box, limits, effort) if is_whole else None
    except TooManySizes:
        least = max((_count_alone(box, one) for one in limits), default=0)
        return SizeCoverage(
            method=name, requested=requested, covered=min(least, COUNT_MAX), exact=False, reason=_TOO_MANY
        )
    return SizeCoverage(
        method=name,
        requested=requested,
        covered=min(covered, COUNT_MAX),
        exact=is_whole and requested < COUNT_MAX,
        missing=missing or {},
        reason=_why_refused(wanted, methods, {**beside, **missing}) if missing else None,
    )


def _count(sizes: Mapping[str, Sequence[Span]]) -> int:
    return min(prod(sum(map(len, map(_range, spans))) for spans in sizes.values()), COUNT_MAX)


def _range(span: Span) -> range:
    return range(span.low, span.high + 1, span.step)


def _count_alone(box: Mapping[str, Sizes], limits: Limits) -> int:
    """Return how many sizes of the box these limits have, or 0 if that is too many to count."""
    try:
        return count_covered(box, [limits], Effort(10_000))
    except TooManySizes:
        return 0


def _why_refused(wanted: MethodContract, methods: Sequence[MethodContract], sizes: Mapping[str, int]) -> str:
    shapes = [shape_at(spec.shape, sizes) for spec in wanted.inputs]
    if not all(0 <= size <= SIZE_MAX for shape in shapes for size in shape):
        return "no tensor has a dim of that size"
    specs = [
        TensorSpec(name=spec.name, datatype=spec.datatype, shape=shape)
        for spec, shape in zip(wanted.inputs, shapes, strict=True)
    ]
    try:
        reasons = [method.refusal_of(specs) for method in methods]
    except ContractViolation as error:
        reasons = [error.detail]
    text = next((reason for reason in reasons if reason is not None), "no bucket accepts it")
    return text if len(text) <= _REASON_MAX_CHARACTERS else f"{text[:_REASON_MAX_CHARACTERS]} ..."
