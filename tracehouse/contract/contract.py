"""The contract: which inputs an artifact is right for, and what it returns."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from tracehouse.contract.devices import FixedDevice, FixedDevices
from tracehouse.contract.dims import SIZE_MAX, SizeConflict, Symbol, SymbolicShape, solve_or_conflict, symbols_of
from tracehouse.contract.input_spec import Datatypes, InputSpec, Reason, ValueRange, ranks_of
from tracehouse.contract.key_orders import KeyOrder
from tracehouse.contract.memory import ELEMENTS_MAX, Memory
from tracehouse.contract.output_spec import Answers, OutputSpec, fit_outputs
from tracehouse.contract.regions import REGIONS_MAX, Region, Regions, Span
from tracehouse.contract.structure import Argument, Structure, tensors_of
from tracehouse.contract.violations import (
    datatype_mismatch,
    fixed_dim_mismatch,
    shape_mismatch,
    size_out_of_range,
    sizes_disagree,
    too_much_memory,
    value_out_of_range,
    wrong_sizes,
)
from tracehouse.errors import ContractViolation, MethodNotFound, MissingInput, UnexpectedInput
from tracehouse.frozen import Frozen
from tracehouse.tensors.tensor import Datatype, Tensor, TensorSpec, array

# How the eager model ran that an artifact was compared with, if the contract says `without_fast_paths`.
WITHOUT_FAST_PATHS = "without its fast paths: torch.backends.mha.set_fastpath_enabled(False)"


class Batch(Frozen):
    """The batch certificate: rows along `symbol` are independent, so requests may be answered together.

    The process that traced, which ran the submitted code, has found so.
    Together, each is answered as alone, within the tolerance of the check: the last digits may depend on how many rows
    a call has. One call may have at most `up_to` rows. `inputs` and `outputs` name the tensors that have rows, each
    with the index of the dim whose size is the number of rows.
    """

    symbol: Symbol
    up_to: int = Field(le=SIZE_MAX)
    inputs: dict[str, int]
    outputs: dict[str, int]


Size = Annotated[int, Field(ge=0, le=SIZE_MAX)]
# Combinations of sizes, one for each symbol, at which the artifact and the eager model gave different answers. None of
# them lies in a region. The limit is chosen: the check finds far fewer.
WrongSizes = Annotated[list[dict[Symbol, Size]], Field(max_length=256)]
# The sizes of calls, one for each symbol.
CalledSizes = Annotated[list[dict[Symbol, Size]], Field(max_length=REGIONS_MAX)]
CALLED = (
    "Sizes at which the service itself called the model and the artifact, each in a process of its own, on inputs that "
    "it drew, and both agreed. All else that the regions accept was found by the process that traced. That process ran "
    "the submitted code, and code that is written to deceive can forge what it finds. With `SERVED_SIZES=called`, "
    "`/infer` answers only these sizes and the example's."
)


class MethodClaim(Frozen):
    """What a check claims about a method's inputs beyond what its example shows.

    `shapes`, `fixed`, `values` and `datatypes` are by the inputs' names. A shape has a number or an expression of
    symbols for each dim; `fixed` has the reason for each dim that is a number, by the dim's index as text.
    `datatype_of` has the input whose datatype an output always has, by the output's name.
    """

    shapes: dict[str, SymbolicShape]
    fixed: dict[str, dict[str, Reason]] = {}
    values: dict[str, ValueRange] = {}
    datatypes: dict[str, Datatypes] = {}  # of the inputs that may have several
    datatype_of: dict[str, str] = {}  # of the outputs that do not always have the example's datatype
    regions: Regions = []
    wrong: WrongSizes = []
    batch: Batch | None = None
    memory: Memory | None = None


@dataclass(frozen=True, slots=True)
class AcceptedInputs:
    """The tensors of a request that a contract accepts, in the contract's order.

    If the contract is open, `warnings` say which sizes were never tried.
    """

    tensors: list[Tensor]
    warnings: list[str]


@dataclass(frozen=True, slots=True)
class Violation:
    """A clause that inputs break. `is_untried`: it is broken only because no such sizes were tried."""

    error: ContractViolation
    is_untried: bool


# How many other combinations of ranks a method's contract may have. Chosen: each is checked as the example is.
OTHER_RANKS_MAX = 4


class RankClaim(Frozen):
    """What a check claims about inputs of other ranks than the example's: those of the check input or sample `case`."""

    case: str
    claim: MethodClaim


class OtherRanks(Frozen):
    """A method's contract for inputs of other ranks than the example's, with sizes of their own.

    The inputs have the same names, and nest as the example's do; `example` has the shapes of a check input or sample.
    """

    inputs: list[InputSpec]
    outputs: list[OutputSpec]
    regions: Regions = []
    wrong: WrongSizes = []
    called: CalledSizes = Field([], description=CALLED)
    memory: Memory | None = None
    batch: Batch | None = None

    @classmethod
    def of(cls, method: "MethodContract") -> Self:
        """Return what the contract of a method with such an example says of its inputs."""
        return cls.model_validate({name: getattr(method, name) for name in cls.model_fields})

    @property
    def ranks(self) -> dict[str, int]:
        """The number of dims of each input."""
        return ranks_of(self.inputs)


class MethodContract(Frozen):
    """The inputs and outputs of one method, as flat lists of tensors.

    A tensor's name is its path in the arguments: `x`, `pair.0`, `batch.ids`; an output's name begins with `output`.
    The regions say which sizes the symbols in the inputs' shapes may have.
    """

    arguments: list[Argument]
    inputs: list[InputSpec]
    outputs: list[OutputSpec]
    returns: Structure
    regions: Regions = []
    wrong: WrongSizes = Field(
        [], description="Sizes that the artifact answers wrongly. An open contract refuses them too."
    )
    called: CalledSizes = Field([], description=CALLED)
    memory: Memory | None = Field(
        None,
        description="How much memory a call needs at most, if a region has sizes `beyond` those that were called. "
        "Beyond them, `/infer` refuses a call that needs more than a runner may use, as `too-much-memory`.",
    )
    batch: Batch | None = None
    stochastic: bool = Field(
        False,
        description="Whether the artifact draws random numbers, so that the same inputs get another answer each time. "
        "A seed in a request to `/infer` gives the same answer again. Such a method has no `batch`.",
    )
    key_orders: dict[str, list[str]] = Field(
        {},
        description="The dicts whose keys must come in a fixed order, because the model's answer depends on it: by the "
        "dict's path in the arguments, its keys in that order. The path `**` means the keyword arguments that "
        "`**kwargs` takes. The keys of all other dicts may come in any order.",
    )
    devices: FixedDevices | None = Field(
        None,
        description="The operators whose results are always on one device, wherever the artifact is loaded; the first "
        "twenty. Empty if the method computes on the device that it is loaded on; null if that is not known.",
    )
    other_ranks: list[OtherRanks] = Field(
        [],
        max_length=OTHER_RANKS_MAX,
        description="The other ranks that the inputs may have, because a check input or a sample had them and the "
        "artifact was found to be right for them, each with shapes and regions of its own.",
    )

    @model_validator(mode="after")
    def _check_places_of_tensors(self) -> Self:
        names = [argument.name for argument in self.arguments]
        if len(set(names)) < len(names):
            raise PydanticCustomError("argument_twice", "two arguments have one name")
        taken = [name for argument in self.arguments for name in tensors_of(argument.structure)]
        _check_same_names(taken, self.inputs, "the arguments and the inputs name different tensors")
        _check_same_names(
            list(tensors_of(self.returns)),
            self.outputs,
            "the returned structure and the outputs name different tensors",
        )
        return self

    @model_validator(mode="after")
    def _check_followed_inputs(self) -> Self:
        several = {spec.name: spec.datatype for spec in self.inputs if len(spec.accepted_datatypes) > 1}
        for spec in self.outputs:
            if spec.datatype_of is not None and several.get(spec.datatype_of) is not spec.datatype:
                raise PydanticCustomError(
                    "datatype_of", "an output follows what is no input of its datatype that may have several"
                )
        return self

    @model_validator(mode="after")
    def _check_example_is_accepted(self) -> Self:
        symbols = self.symbols
        if any(region.spans.keys() != symbols for region in self.regions):
            raise PydanticCustomError("regions", "a region and the inputs' shapes have different symbols")
        if any(sizes.keys() != symbols or self._has(sizes) for sizes in self.wrong):
            raise PydanticCustomError("wrong", "wrong sizes lie in a region, or lack a symbol")
        if any(sizes.keys() != symbols or not self._has(sizes) for sizes in self.called):
            raise PydanticCustomError("called", "called sizes lie in no region, or lack a symbol")
        if any(not spec.symbols <= symbols for spec in self.outputs):
            raise PydanticCustomError("symbols", "an output has a symbol that no input has")
        sizes = self.example_sizes
        if sizes is None:
            raise PydanticCustomError("symbols", "the sizes of the symbols do not follow from the inputs' shapes")
        if not self._has(sizes):
            raise PydanticCustomError("regions", "the example's sizes lie in no region")
        if any(region.beyond for region in self.regions) != (self.memory is not None):
            raise PydanticCustomError(
                "memory", "sizes go on beyond those that were called, or memory is bounded, alone"
            )
        if self.memory is not None and not self.memory.symbols <= symbols:
            raise PydanticCustomError("memory", "the memory has a symbol that no input has")
        if self.batch is not None and not self._has_rows(self.batch):
            raise PydanticCustomError("batch", "the batch names tensors or dims that are not there")
        if self.batch is not None and self.stochastic:
            raise PydanticCustomError("batch", "rows that draw random numbers together get others than alone")
        return self

    @model_validator(mode="after")
    def _check_other_ranks(self) -> Self:
        seen, own = [self.ranks], [(spec.name, spec.datatype) for spec in self.inputs]
        for other in self.other_ranks:
            if [(spec.name, spec.datatype) for spec in other.inputs] != own or other.ranks in seen:
                raise PydanticCustomError("ranks", "other ranks are of other inputs, or occur twice")
            seen.append(other.ranks)
            type(self).model_validate(dict(self._at(other)))
        if self.other_ranks and self.stochastic:
            raise PydanticCustomError("ranks", "a method that draws random numbers takes one rank of each input")
        return self

    @property
    def ranks(self) -> dict[str, int]:
        """The number of dims of each input of the example."""
        return ranks_of(self.inputs)

    @property
    def by_ranks(self) -> list[Self]:
        """The contracts for each combination of ranks, the example's first; none of them has other ranks."""
        return [self.model_copy(update={"other_ranks": []}), *map(self._at, self.other_ranks)]

    def at_ranks(self, inputs: Iterable[Tensor | TensorSpec]) -> Self:
        """Return the contract for inputs of these ranks; this one if they have the example's, or are not accepted."""
        if not self.other_ranks:
            return self
        ranks = ranks_of(inputs)
        return next((self._at(other) for other in self.other_ranks if other.ranks == ranks), self)

    def _at(self, other: OtherRanks) -> Self:
        return self.model_copy(update={**dict(other), "other_ranks": []})

    @property
    def symbols(self) -> set[str]:
        """The symbols in the inputs' shapes."""
        return {symbol for spec in self.inputs for symbol in symbols_of(spec.shape)}

    @property
    def example_sizes(self) -> dict[str, int] | None:
        """The size of each symbol in the example. None if the shapes do not determine it; no valid contract is so."""
        found = solve_or_conflict([(spec.shape, spec.example) for spec in self.inputs])
        return found if isinstance(found, dict) else None

    def accept(
        self, tensors: Iterable[Tensor], *, is_open: bool = False, memory_max_bytes: int | None = None
    ) -> AcceptedInputs:
        """Return the tensors in the contract's order. Raises a ContractViolation that says which clause is broken.

        An open contract accepts sizes that were never tried, with a warning, if no other clause is broken. Beyond the
        sizes that were called, a call may need `memory_max_bytes`; None sets no limit.
        """
        sent = {tensor.name: tensor for tensor in tensors}
        at_ranks = self.at_ranks(sent.values())
        if at_ranks is not self:
            return at_ranks.accept(sent.values(), is_open=is_open, memory_max_bytes=memory_max_bytes)
        known = {spec.name for spec in self.inputs}
        for name in sent:
            if name not in known:
                raise UnexpectedInput(f"there is no input {name!r}", input=name, inputs=sorted(known))
        warnings = []
        for violation in self._violations(sent, memory_max_bytes):
            if not (is_open and violation.is_untried):
                raise violation.error
            warnings.append(violation.error.detail)
        for spec in self.inputs:
            check_values(spec, sent[spec.name])
        return AcceptedInputs([sent[spec.name] for spec in self.inputs], warnings)

    def why_refused(self, tensors: Iterable[Tensor], *, is_open: bool = False) -> str | None:
        """Return what `accept` says if it refuses the tensors; None if it accepts them."""
        try:
            self.accept(tensors, is_open=is_open)
        except ContractViolation as violation:
            return violation.detail
        return None

    def sizes_of(self, specs: Iterable[TensorSpec]) -> dict[str, int] | None:
        """Return the size of each symbol in inputs with these names, datatypes and shapes, in any order.

        The sizes need not lie in a region. None if the inputs' names, datatypes, ranks or fixed dims differ from the
        contract's, or if the shapes give a symbol two sizes. Inputs of `other_ranks` have other symbols: None too.
        """
        by_name = {spec.name: spec for spec in specs}
        if by_name.keys() != {spec.name for spec in self.inputs}:
            return None
        shapes = [by_name[spec.name].shape for spec in self.inputs]
        for spec, shape in zip(self.inputs, shapes, strict=True):
            if by_name[spec.name].datatype not in spec.accepted_datatypes or len(shape) != len(spec.shape):
                return None
            if any(True for _ in _mismatched_fixed_dims(spec, shape)):
                return None
        found = self._solution(shapes)
        return found if isinstance(found, dict) else None

    def output_datatypes(self, inputs: Iterable[Tensor | TensorSpec]) -> dict[str, Datatype]:
        """Return the outputs' datatypes by name, in the contract's order, for inputs that the contract accepts."""
        tensors = [*inputs]
        given = {one.name: one.datatype for one in tensors}
        return {
            spec.name: spec.datatype if spec.datatype_of is None else given[spec.datatype_of]
            for spec in self.at_ranks(tensors).outputs
        }

    def takes(self, specs: Iterable[TensorSpec]) -> bool:
        """Whether inputs of these datatypes and shapes lie in a region. Neither values nor `open` count."""
        given = [*specs]
        at_ranks = self.at_ranks(given)
        sizes = at_ranks.sizes_of(given)
        return sizes is not None and at_ranks._has(sizes)

    def refusal_of(self, specs: Iterable[TensorSpec]) -> str | None:
        """Return why a closed contract refuses inputs of these names, datatypes and shapes; None if it takes them.

        Raises a ContractViolation if a name, datatype or rank is wrong.
        """
        given = {spec.name: spec for spec in specs}
        violation = next(self.at_ranks(given.values())._violations(given), None)
        return None if violation is None else violation.error.detail

    def with_claim(self, claim: MethodClaim, answers: Answers = ()) -> Self:
        """Return this contract, which the example alone gave, widened by a claim.

        The result always accepts the example's sizes. The outputs' shapes are fitted to the example and to `answers`,
        which are calls at several sizes. Raises ValueError if the claim is not about these inputs.
        """
        unknown = {*claim.shapes, *claim.fixed, *claim.values, *claim.datatypes} - {spec.name for spec in self.inputs}
        if unknown:
            raise ValueError(f"there is no input {min(unknown)!r}")
        if unknown := claim.datatype_of.keys() - {spec.name for spec in self.outputs}:
            raise ValueError(f"there is no output {min(unknown)!r}")
        inputs = [_apply_claim(spec, claim) for spec in self.inputs]
        example = solve_or_conflict([(spec.shape, spec.example) for spec in inputs])
        if isinstance(example, SizeConflict):
            raise ValueError("the symbols' sizes cannot be told from the example's shapes")
        regions = _regions_with_example(claim.regions, example)
        following = [spec.model_copy(update={"datatype_of": claim.datatype_of.get(spec.name)}) for spec in self.outputs]
        outputs = fit_outputs(following, _varying_symbols(example, regions), [(example, self.outputs), *answers])
        wrong = [sizes for sizes in claim.wrong if sizes != example]
        memory = claim.memory if any(region.beyond for region in regions) else None
        changed = {"inputs": inputs, "outputs": outputs, "regions": regions, "wrong": wrong, "batch": claim.batch,
                   "memory": memory}  # fmt: skip
        return type(self).model_validate({**dict(self), **changed})

    def with_called(self, called: Iterable[Mapping[str, int]]) -> Self:
        """Return this contract with the called sizes, as far as it accepts them and has room."""
        accepted = [dict(sizes) for sizes in called if sizes.keys() == self.symbols and self._has(sizes)]
        return self.model_copy(update={"called": accepted[:REGIONS_MAX] if self.symbols else []})

    def _violations(
        self, sent: Mapping[str, Tensor | TensorSpec], memory_max_bytes: int | None = None
    ) -> Iterator[Violation]:
        """Yield the broken clauses about sizes. Raises the ContractViolation if a name, datatype or rank is wrong."""
        shapes = []
        for spec in self.inputs:
            shape = self._require_fit(spec, sent.get(spec.name)).shape
            for dim in _mismatched_fixed_dims(spec, shape):
                yield Violation(fixed_dim_mismatch(spec, dim, shape), is_untried=spec.reason(dim) == "untried")
            shapes.append(shape)
        sizes = self._solution(shapes)
        if isinstance(sizes, SizeConflict):
            yield Violation(sizes_disagree(self.inputs, shapes, sizes), is_untried=False)
        elif sizes in self.wrong:
            yield Violation(wrong_sizes(self.inputs, sizes), is_untried=False)
        elif not self._has(sizes):
            yield Violation(size_out_of_range(self.inputs, self.regions, sizes), is_untried=True)
        elif self._needs_too_much(sizes, memory_max_bytes):
            assert self.memory is not None
            yield Violation(too_much_memory(self.inputs, self.memory, sizes, memory_max_bytes), is_untried=False)

    def _needs_too_much(self, sizes: Mapping[str, int], memory_max_bytes: int | None) -> bool:
        """Whether sizes beyond those that were called need more memory than there is."""
        if self.memory is None or any(region.contains_within_calls(sizes) for region in self.regions):
            return False
        needed = self.memory.needed_bytes(sizes)
        too_many = self.memory.largest_elements(sizes) > ELEMENTS_MAX
        return too_many or (memory_max_bytes is not None and needed > memory_max_bytes)

    def _require_fit(self, spec: InputSpec, tensor: Tensor | TensorSpec | None) -> Tensor | TensorSpec:
        if tensor is None:
            raise MissingInput(f"input {spec.name!r} is missing", input=spec.name)
        if tensor.datatype not in spec.accepted_datatypes:
            raise datatype_mismatch(spec, tensor.datatype.value)
        if len(tensor.shape) != len(spec.shape):
            raise shape_mismatch(spec, list(tensor.shape), self.other_shapes(spec.name))
        return tensor

    def other_shapes(self, name: str) -> list[SymbolicShape]:
        """Return the shapes of other ranks than the example's that an input may have."""
        return [spec.shape for other in self.other_ranks for spec in other.inputs if spec.name == name]

    def _solution(self, shapes: Iterable[Sequence[int]]) -> dict[str, int] | SizeConflict:
        return solve_or_conflict([(spec.shape, shape) for spec, shape in zip(self.inputs, shapes, strict=True)])

    def _has(self, sizes: Mapping[str, int]) -> bool:
        return not sizes or any(region.contains(sizes) for region in self.regions)

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
    """What each method accepts and returns, by the methods' names.

    `open`: the artifact also answers sizes that were never tried, with a warning.
    """

    methods: dict[str, MethodContract]
    open: bool = False
    without_fast_paths: bool = Field(
        False,
        description="Whether the eager model ran without torch's fast paths when the artifact was compared with it, "
        "as after `torch.backends.mha.set_fastpath_enabled(False)`, because with them nn.TransformerEncoder looks at "
        "the values of its padding mask. With them, the eager model may give other numbers at padded positions, such "
        "as zeros.",
    )

    @model_validator(mode="before")
    @classmethod
    def _read_earlier_release(cls, contract: Any) -> Any:
        """Read a contract of an earlier release, which said `known: observed` once for all of its clauses."""
        if isinstance(contract, dict) and contract.get("known") == "observed":
            return {name: value for name, value in contract.items() if name != "known"}
        return contract

    def with_claims(self, claims: Mapping[str, MethodClaim], answers: Mapping[str, Answers]) -> Self:
        """Return this contract, widened by the claims about its methods, as `MethodContract.with_claim` does."""
        widened = {name: self.methods[name].with_claim(claim, answers.get(name, ())) for name, claim in claims.items()}
        return self.model_copy(update={"methods": {**self.methods, **widened}})

    def with_called(self, called: Mapping[str, Iterable[Mapping[str, int]]]) -> Self:
        """Return this contract with the sizes at which the service called both models, given by method."""
        changed = {name: self.methods[name].with_called(sizes) for name, sizes in called.items()}
        return self.model_copy(update={"methods": {**self.methods, **changed}})

    def with_key_orders(self, orders: Mapping[str, Iterable[KeyOrder]]) -> Self:
        """Return this contract with these orders of keys fixed, given by method."""
        changed = {
            name: self.methods[name].model_copy(update={"key_orders": {one.path: one.keys for one in fixed}})
            for name, fixed in orders.items()
        }
        return self.model_copy(update={"methods": {**self.methods, **changed}})

    def with_other_ranks(self, ranks: Mapping[str, Sequence[OtherRanks]]) -> Self:
        """Return this contract with these other ranks of inputs, given by method."""
        widened = {
            name: MethodContract.model_validate({**dict(self.methods[name]), "other_ranks": [*found]})
            for name, found in ranks.items()
        }
        return self.model_copy(update={"methods": {**self.methods, **widened}})

    def with_stochastic(self, methods: Collection[str]) -> Self:
        """Return this contract, which says that these methods draw random numbers: no batch, and no other ranks."""
        drawing = {
            name: self.methods[name].model_copy(update={"stochastic": True, "batch": None, "other_ranks": []})
            for name in self.methods
            if name in methods
        }
        return self.model_copy(update={"methods": {**self.methods, **drawing}})

    def with_devices(self, devices: Mapping[str, list[FixedDevice]]) -> Self:
        """Return this contract with the operators whose device is fixed, given by method."""
        known = {
            name: method.model_copy(update={"devices": devices.get(name)}) for name, method in self.methods.items()
        }
        return self.model_copy(update={"methods": known})

    def method(self, name: str) -> MethodContract:
        """Return the contract of this method. Raises MethodNotFound."""
        if name not in self.methods:
            raise MethodNotFound(f"there is no method {name!r}", method=name, methods=sorted(self.methods))
        return self.methods[name]


def _check_same_names(leaves: list[str], specs: Sequence[InputSpec | OutputSpec], otherwise: str) -> None:
    """Raise PydanticCustomError unless the specs have exactly these names, each once."""
    if len(set(leaves)) < len(leaves) or sorted(leaves) != sorted(spec.name for spec in specs):
        raise PydanticCustomError("structure", otherwise)


def _mismatched_fixed_dims(spec: InputSpec, shape: Sequence[int]) -> Iterator[int]:
    """Yield the fixed dims whose size differs from the contract's."""
    for place, (dim, size) in enumerate(zip(spec.shape, shape, strict=True)):
        if isinstance(dim, int) and dim != size:
            yield place


def check_values(spec: InputSpec, tensor: Tensor) -> None:
    """Raise ValueOutOfRange if the tensor has a value that the spec does not take."""
    if spec.values is None or not len(tensor.data):
        return
    values = array(tensor.datatype, tensor.data)
    low, high = spec.values.low, spec.values.high
    # The usual case first, because it copies nothing: there may be millions of values.
    if (low is None or values.min() >= low) and (high is None or values.max() <= high):
        return
    outside = np.zeros(values.shape, bool) if low is None else values < low
    outside |= False if high is None else values > high
    first = int(outside.argmax())
    place = [int(index) for index in np.unravel_index(first, tensor.shape)]
    raise value_out_of_range(spec, place, int(values[first]))


def _apply_claim(spec: InputSpec, claim: MethodClaim) -> InputSpec:
    shape = claim.shapes.get(spec.name, spec.example)
    reasons = claim.fixed.get(spec.name, {})
    fixed = {str(at): reasons.get(str(at), "untried") for at, dim in enumerate(shape) if isinstance(dim, int)}
    return InputSpec.model_validate(
        {
            **dict(spec),
            "shape": shape,
            "fixed": {**reasons, **fixed},
            "values": claim.values.get(spec.name),
            "datatypes": claim.datatypes.get(spec.name, []),
        }
    )


def _regions_with_example(regions: Sequence[Region], sizes: Mapping[str, int]) -> list[Region]:
    if any(region.spans.keys() != sizes.keys() for region in regions):
        raise ValueError("a region and the inputs' shapes have different symbols")
    if not sizes or any(region.contains(sizes) for region in regions):
        return [*regions]
    spans = {symbol: [Span(low=size, high=size)] for symbol, size in sizes.items()}
    return [*regions[: REGIONS_MAX - 1], Region(spans=spans, basis="observed")]


def _varying_symbols(symbols: Iterable[str], regions: Iterable[Region]) -> list[str]:
    """Return the symbols that may have more than one size."""
    bounds = {symbol: {bound for region in regions for span in region.spans[symbol] for bound in (span.low, span.high)}
              for symbol in symbols}  # fmt: skip
    return [symbol for symbol, sizes in bounds.items() if len(sizes) > 1]


def _dim(shape: Sequence[int | str] | None, dim: int) -> int | str | None:
    return shape[dim] if shape is not None and 0 <= dim < len(shape) else None
