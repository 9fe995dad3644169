"""The contract: which inputs an artifact is right for, and what it returns."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from tracehouse.contract.dims import SIZE_MAX, Conflict, Symbol, SymbolicShape, solution, symbols_of
from tracehouse.contract.input_spec import InputSpec, Reason, ValueRange
from tracehouse.contract.output_spec import Answers, OutputSpec, as_answered
from tracehouse.contract.regions import REGIONS_MAX, Region, Regions, Span
from tracehouse.contract.structure import Argument, Structure, tensors_of
from tracehouse.contract.violations import (
    datatype_mismatch,
    fixed_otherwise,
    known_wrong,
    shape_mismatch,
    size_out_of_range,
    sizes_disagree,
    value_out_of_range,
)
from tracehouse.errors import ContractViolation, MethodNotFound, MissingInput, UnexpectedInput
from tracehouse.frozen import Frozen
from tracehouse.tensors.tensor import Tensor, TensorSpec, array


class Batch(Frozen):
    """Rows along `symbol` do not see one another, so that requests may be answered together, up to so many rows.

    `inputs` and `outputs` name the leaves that have rows, and in which dim.
    """

    symbol: Symbol
    up_to: int = Field(le=SIZE_MAX)
    inputs: dict[str, int]
    outputs: dict[str, int]


Size = Annotated[int, Field(ge=0, le=SIZE_MAX)]
# Sizes of all symbols at which the artifact was seen to answer otherwise than eager does: never inside a region.
WrongSizes = Annotated[list[dict[Symbol, Size]], Field(max_length=256)]


class MethodClaim(Frozen):
    """What a check says of a method's inputs beyond what its example shows."""

    shapes: dict[str, SymbolicShape]
    fixed: dict[str, dict[str, Reason]] = {}
    values: dict[str, ValueRange] = {}
    regions: Regions = []
    wrong: WrongSizes = []
    batch: Batch | None = None


@dataclass(frozen=True, slots=True)
class Accepted:
    """Inputs that a contract takes, in its order. `warnings` say what of them was never tried, if it is open."""

    tensors: list[Tensor]
    warnings: list[str]


@dataclass(frozen=True, slots=True)
class Doubt:
    """A clause that inputs break; `is_untried`: for no other reason than that nobody tried such inputs."""

    violation: ContractViolation
    is_untried: bool


class MethodContract(Frozen):
    """Inputs and outputs of one method, flat in the order of their leaves.

    The sizes that the symbols in its inputs' shapes may have are those of its regions.

    A leaf's name is its path: `x`, `pair.0`, `batch.ids`; an output's begins with `output`.
    """

    arguments: list[Argument]
    inputs: list[InputSpec]
    outputs: list[OutputSpec]
    returns: Structure
    regions: Regions = []
    wrong: WrongSizes = Field(
        [], description="Sizes that it was seen to answer wrongly, which an open contract too refuses."
    )
    batch: Batch | None = None

    @model_validator(mode="after")
    def _every_tensor_has_one_place(self) -> Self:
        names = [argument.name for argument in self.arguments]
        if len(set(names)) < len(names):
            raise PydanticCustomError("argument_twice", "two arguments have one name")
        taken = [name for argument in self.arguments for name in tensors_of(argument.structure)]
        _agree(taken, self.inputs, "the arguments hold other tensors than the inputs")
        _agree(list(tensors_of(self.returns)), self.outputs, "what it returns holds other tensors than the outputs")
        return self

    @model_validator(mode="after")
    def _its_example_lies_within(self) -> Self:
        symbols = self.symbols
        if any(region.spans.keys() != symbols for region in self.regions):
            raise PydanticCustomError("regions", "a region has other symbols than the inputs' shapes")
        if any(sizes.keys() != symbols or self._has(sizes) for sizes in self.wrong):
            raise PydanticCustomError("wrong", "sizes that are known to be wrong lie in a region, or lack a symbol")
        if any(not spec.symbols <= symbols for spec in self.outputs):
            raise PydanticCustomError("symbols", "an output has a symbol that no input has")
        sizes = self.example_sizes
        if sizes is None:
            raise PydanticCustomError("symbols", "the symbols' sizes cannot be told from the inputs' shapes")
        if not self._has(sizes):
            raise PydanticCustomError("regions", "the example's sizes lie in no region")
        if self.batch is not None and not self._has_rows(self.batch):
            raise PydanticCustomError("batch", "the batch names other leaves or dims than there are")
        return self

    @property
    def symbols(self) -> set[str]:
        return {symbol for spec in self.inputs for symbol in symbols_of(spec.shape)}

    @property
    def example_sizes(self) -> dict[str, int] | None:
        """None only where they cannot be told from any shapes; a contract that is there has them."""
        found = solution([(spec.shape, spec.example) for spec in self.inputs])
        return found if isinstance(found, dict) else None

    def accept(self, tensors: Iterable[Tensor], *, is_open: bool = False) -> Accepted:
        """The tensors in the artifact's order. Raises a ContractViolation that names the clause.

        Where the contract is open, sizes that nobody tried are let through with a warning, if nothing else is amiss.
        """
        sent = {tensor.name: tensor for tensor in tensors}
        known = {spec.name for spec in self.inputs}
        for name in sent:
            if name not in known:
                raise UnexpectedInput(f"there is no input {name!r}", input=name, inputs=sorted(known))
        warnings = []
        for doubt in self._doubts(sent):
            if not (is_open and doubt.is_untried):
                raise doubt.violation
            warnings.append(doubt.violation.detail)
        for spec in self.inputs:
            _check_values(spec, sent[spec.name])
        return Accepted([sent[spec.name] for spec in self.inputs], warnings)

    def sizes_of(self, specs: Iterable[TensorSpec]) -> dict[str, int] | None:
        """The symbols' sizes where the inputs are these, in any order, be they in a region or not.

        None where there are other inputs, datatypes or ranks, another size than a fixed one, or no sizes that fit all.
        """
        by_name = {spec.name: spec for spec in specs}
        if by_name.keys() != {spec.name for spec in self.inputs}:
            return None
        shapes = [by_name[spec.name].shape for spec in self.inputs]
        for spec, shape in zip(self.inputs, shapes, strict=True):
            if by_name[spec.name].datatype is not spec.datatype or len(shape) != len(spec.shape):
                return None
            if any(True for _ in _fixed_otherwise(spec, shape)):
                return None
        found = self._solution(shapes)
        return found if isinstance(found, dict) else None

    def takes(self, specs: Iterable[TensorSpec]) -> bool:
        """Whether inputs of these datatypes and shapes lie inside, whatever their values. It is closed in this."""
        sizes = self.sizes_of(specs)
        return sizes is not None and self._has(sizes)

    def claimed(self, claim: MethodClaim, answers: Answers = ()) -> Self:
        """This contract, which is as the example shows it, with what a claim says beyond that.

        The example's sizes are always among those that it takes. The outputs' shapes are what the answers to several
        sizes tell, that to the example included. Raises ValueError for a claim that is not about these inputs.
        """
        unknown = {*claim.shapes, *claim.fixed, *claim.values} - {spec.name for spec in self.inputs}
        if unknown:
            raise ValueError(f"there is no input {min(unknown)!r}")
        inputs = [_claimed(spec, claim) for spec in self.inputs]
        example = solution([(spec.shape, spec.example) for spec in inputs])
        if isinstance(example, Conflict):
            raise ValueError("the symbols' sizes cannot be told from the example's shapes")
        regions = _with_example(claim.regions, example)
        outputs = as_answered(self.outputs, _free(example, regions), [(example, self.outputs), *answers])
        wrong = [sizes for sizes in claim.wrong if sizes != example]
        changed = {"inputs": inputs, "outputs": outputs, "regions": regions, "wrong": wrong, "batch": claim.batch}
        return type(self).model_validate({**dict(self), **changed})

    def _doubts(self, sent: Mapping[str, Tensor]) -> Iterator[Doubt]:
        """What speaks against them, but for their values. What nothing lets through may be raised instead."""
        shapes = []
        for spec in self.inputs:
            shape = _fitting(spec, sent.get(spec.name)).shape
            for dim in _fixed_otherwise(spec, shape):
                yield Doubt(fixed_otherwise(spec, dim, shape), is_untried=spec.reason(dim) == "untried")
            shapes.append(shape)
        sizes = self._solution(shapes)
        if isinstance(sizes, Conflict):
            yield Doubt(sizes_disagree(self.inputs, shapes, sizes), is_untried=False)
        elif sizes in self.wrong:
            yield Doubt(known_wrong(self.inputs, sizes), is_untried=False)
        elif not self._has(sizes):
            yield Doubt(size_out_of_range(self.inputs, self.regions, sizes), is_untried=True)

    def _solution(self, shapes: Iterable[Sequence[int]]) -> dict[str, int] | Conflict:
        return solution([(spec.shape, shape) for spec, shape in zip(self.inputs, shapes, strict=True)])

    def _has(self, sizes: Mapping[str, int]) -> bool:
        return not sizes or any(region.has(sizes) for region in self.regions)

    def _has_rows(self, batch: Batch) -> bool:
        inputs = {spec.name: spec.shape for spec in self.inputs}
        outputs = {spec.name: spec.shape for spec in self.outputs}
        return (
            bool(batch.inputs)
            and batch.up_to > 0
            and all(_dim(inputs.get(name), dim) == batch.symbol for name, dim in batch.inputs.items())
            and all(_dim(outputs.get(name), dim) is not None for name, dim in batch.outputs.items())
        )


class Contract(Frozen):
    """What each method takes and returns. Open: sizes that nobody tried are answered, and the answers say so."""

    methods: dict[str, MethodContract]
    open: bool = False

    @model_validator(mode="before")
    @classmethod
    def _without_known(cls, contract: Any) -> Any:
        """Which a contract had when all of its clauses were known from the example alone."""
        if isinstance(contract, dict) and contract.get("known") == "observed":
            return {name: value for name, value in contract.items() if name != "known"}
        return contract

    def method(self, name: str) -> MethodContract:
        """Raises MethodNotFound."""
        if name not in self.methods:
            raise MethodNotFound(f"there is no method {name!r}", method=name, methods=sorted(self.methods))
        return self.methods[name]


def _agree(leaves: list[str], specs: Sequence[InputSpec | OutputSpec], otherwise: str) -> None:
    """The same names, each once."""
    if len(set(leaves)) < len(leaves) or sorted(leaves) != sorted(spec.name for spec in specs):
        raise PydanticCustomError("structure", otherwise)


def _fitting(spec: InputSpec, tensor: Tensor | None) -> Tensor:
    if tensor is None:
        raise MissingInput(f"input {spec.name!r} is missing", input=spec.name)
    if tensor.datatype is not spec.datatype:
        raise datatype_mismatch(spec, tensor.datatype.value)
    if len(tensor.shape) != len(spec.shape):
        raise shape_mismatch(spec, list(tensor.shape))
    return tensor


def _fixed_otherwise(spec: InputSpec, shape: Sequence[int]) -> Iterator[int]:
    """The dims that have another size than the one that they may have."""
    for place, (dim, size) in enumerate(zip(spec.shape, shape, strict=True)):
        if isinstance(dim, int) and dim != size:
            yield place


def _check_values(spec: InputSpec, tensor: Tensor) -> None:
    if spec.values is None or not len(tensor.data):
        return
    values = array(tensor.datatype, tensor.data)
    low, high = spec.values.low, spec.values.high
    # Without a copy of what may be millions, where all is well.
    if (low is None or values.min() >= low) and (high is None or values.max() <= high):
        return
    outside = np.zeros(values.shape, bool) if low is None else values < low
    outside |= False if high is None else values > high
    first = int(outside.argmax())
    place = [int(index) for index in np.unravel_index(first, tensor.shape)]
    raise value_out_of_range(spec, place, int(values[first]))


def _claimed(spec: InputSpec, claim: MethodClaim) -> InputSpec:
    shape = claim.shapes.get(spec.name, spec.example)
    reasons = claim.fixed.get(spec.name, {})
    fixed = {str(at): reasons.get(str(at), "untried") for at, dim in enumerate(shape) if isinstance(dim, int)}
    return InputSpec.model_validate(
        {**dict(spec), "shape": shape, "fixed": {**reasons, **fixed}, "values": claim.values.get(spec.name)}
    )


def _with_example(regions: Sequence[Region], sizes: Mapping[str, int]) -> list[Region]:
    if any(region.spans.keys() != sizes.keys() for region in regions):
        raise ValueError("a region has other symbols than the inputs' shapes")
    if not sizes or any(region.has(sizes) for region in regions):
        return [*regions]
    spans = {symbol: [Span(low=size, high=size)] for symbol, size in sizes.items()}
    return [*regions[: REGIONS_MAX - 1], Region(spans=spans, basis="observed")]


def _free(symbols: Iterable[str], regions: Iterable[Region]) -> list[str]:
    """Those that may have more sizes than one."""
    ends = {symbol: {end for region in regions for span in region.spans[symbol] for end in (span.low, span.high)}
            for symbol in symbols}  # fmt: skip
    return [symbol for symbol, sizes in ends.items() if len(sizes) > 1]


def _dim(shape: Sequence[int | str] | None, dim: int) -> int | str | None:
    return shape[dim] if shape is not None and 0 <= dim < len(shape) else None
