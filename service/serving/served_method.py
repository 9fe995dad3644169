"""A served method: its contracts, and what follows from them for each request, worked out once.

Whether a contract takes inputs follows from their names, datatypes and shapes, but for ranges of values. The whole
check of `tracehouse.contract.buckets` says so the first time that such inputs come, and that is remembered.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple, TypeVar

from service.serving.pending_call import Joining
from tracehouse.contract.buckets import BucketContract, accept
from tracehouse.contract.contract import AcceptedInputs, MethodContract, check_values
from tracehouse.contract.dims import shape_at
from tracehouse.contract.input_spec import InputSpec
from tracehouse.errors import ContractViolation
from tracehouse.tensors.tensor import Datatype, Tensor

# Of one method. Chosen: each takes some kilobytes, and what is asked at more sizes is checked whole.
_REMEMBERED_MAX = 256

Made = TypeVar("Made")
_Specs = tuple[tuple[str, Datatype, tuple[int, ...]], ...]


class Accepted(NamedTuple):
    """Inputs that the contract of the artifact at `place` takes, in its order.

    `rows` counts independent rows, 1 if there are none. `answer_bytes` is the size of the outputs; None if the contract
    does not say it.
    """

    place: int
    tensors: list[Tensor]
    warnings: list[str]
    rows: int
    joining: Joining | None
    answer_bytes: int | None


@dataclass(frozen=True, slots=True)
class _Known:
    """What is the same for all inputs of some names, datatypes and shapes."""

    place: int
    order: list[int]
    valued: list[tuple[int, InputSpec]]  # the inputs whose values have a range
    warnings: list[str]
    rows: int
    joining: Joining | None
    answer_bytes: int | None


class ServedMethod:
    """One method of a version. `contracts` has its one contract, or its contract in each bucket."""

    def __init__(self, buckets: Sequence[BucketContract], *, is_open: bool, memory_max_bytes: int | None) -> None:
        self.contracts = [bucket.method for bucket in buckets]
        self._buckets = buckets
        self._is_open = is_open
        self._memory_max_bytes = memory_max_bytes
        self._known: dict[_Specs, _Known] = {}
        self._made: dict[Any, Any] = {}

    def once(self, make: Callable[[Sequence[MethodContract]], Made]) -> Made:
        """Return what `make` makes of the contracts, which it is called with only once."""
        if make not in self._made:
            self._made[make] = make(self.contracts)
        made: Made = self._made[make]
        return made

    def accept(self, sent: Sequence[Tensor]) -> Accepted:
        """Return the tensors as the contract orders them. Raises a ContractViolation."""
        specs = tuple([(one.name, one.datatype, one.shape) for one in sent])
        known = self._known.get(specs)
        if known is None:
            known = self._accept_anew(specs, sent)
        else:
            for place, spec in known.valued:
                check_values(spec, sent[place])
        return Accepted(
            known.place,
            [sent[place] for place in known.order],
            known.warnings,
            known.rows,
            known.joining,
            known.answer_bytes,
        )

    def _accept_anew(self, specs: _Specs, sent: Sequence[Tensor]) -> _Known:
        place, accepted = self._check(sent)
        places = {one.name: at for at, one in enumerate(sent)}
        contract = self.contracts[place].at_ranks(sent)
        known = self._known[specs] = _Known(
            place=place,
            order=[places[one.name] for one in accepted.tensors],
            valued=[(places[spec.name], spec) for spec in contract.inputs if spec.values is not None],
            warnings=accepted.warnings,
            rows=_count_rows(contract, sent),
            joining=self._joining(place, contract, accepted),
            answer_bytes=_answer_bytes(contract, accepted.tensors),
        )
        if len(self._known) > _REMEMBERED_MAX:
            del self._known[next(iter(self._known))]
        return known

    def _check(self, sent: Sequence[Tensor]) -> tuple[int, AcceptedInputs]:
        return accept(sent, self._buckets, is_open=self._is_open, memory_max_bytes=self._memory_max_bytes)

    def _joining(self, place: int, contract: MethodContract, accepted: AcceptedInputs) -> Joining | None:
        """Return how such a call may be joined with others, if the batch certificate covers all that it has."""
        batch, tensors = contract.batch, accepted.tensors
        if batch is None or accepted.warnings or contract.stochastic:
            return None
        covered = [*batch.inputs.values(), *batch.outputs.values()]
        if any(one.name not in batch.inputs for one in contract.inputs):
            return None
        if any(one.name not in batch.outputs for one in contract.outputs) or any(covered):
            return None  # something has no rows, or has them in another dim than the first
        rows = tensors[0].shape[0]
        if any(0 in one.shape for one in tensors) or any(one.shape[0] != rows for one in tensors):
            return None  # torch's own operators may mix rows that are empty, with a NaN in one of them
        taken: dict[int, bool] = {}

        def takes(total: int) -> bool:
            if total > batch.up_to:
                return False
            if total not in taken:
                taken[total] = self._takes(place, [_with_rows(one, total) for one in specs])
            return taken[total]

        specs = [Tensor(one.name, one.datatype, one.shape, b"") for one in tensors]
        key = (place, tuple((one.name, one.datatype, one.shape[1:]) for one in tensors))
        return Joining(key, rows, takes)

    def _takes(self, place: int, joined: Sequence[Tensor]) -> bool:
        """Whether the same artifact's contract takes inputs of these shapes, whatever their values are."""
        try:
            found, accepted = self._check(joined)
        except ContractViolation:
            return False
        return found == place and not accepted.warnings


def _with_rows(spec: Tensor, rows: int) -> Tensor:
    return Tensor(spec.name, spec.datatype, (rows, *spec.shape[1:]), b"")


def _count_rows(contract: MethodContract, tensors: Sequence[Tensor]) -> int:
    """Return the number of independent rows in a call; 1 if there are none."""
    if contract.batch is None:
        return 1
    name, dim = next(iter(contract.batch.inputs.items()))
    return next(tensor.shape[dim] for tensor in tensors if tensor.name == name)


def _answer_bytes(contract: MethodContract, tensors: Sequence[Tensor]) -> int | None:
    sizes = contract.sizes_of([tensor.spec for tensor in tensors])
    if sizes is None or any(dim == -1 for spec in contract.outputs for dim in spec.shape):
        return None
    datatypes = contract.output_datatypes(tensors)
    return sum(prod(shape_at(spec.shape, sizes)) * datatypes[spec.name].item_bytes for spec in contract.outputs)
