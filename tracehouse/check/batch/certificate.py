"""Batching: whether the rows of an artifact's inputs see one another.

Certified is an artifact whose answer to several rows is that to each of them alone, in any order, whatever the other
rows hold. Only such a one may answer the requests of several clients in one call.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch

from tracehouse.check.batch import drawn_rows
from tracehouse.check.batch.drawn_rows import Row
from tracehouse.check.calls import Answer, call_artifact
from tracehouse.check.inputs.probes import ValueBounds, find_extremes
from tracehouse.check.size_groups import Groups
from tracehouse.check.target import Target
from tracehouse.check.time_limit import TooSlow
from tracehouse.contract.contract import Batch
from tracehouse.contract.dims import SymbolicDim, parse_dim
from tracehouse.contract.structure import Structure
from tracehouse.differential.budget import Budget
from tracehouse.differential.call_limits import CALL_LIMITS
from tracehouse.eager.call import Call
from tracehouse.eager.error_translation import is_out_of_memory
from tracehouse.errors import ServiceError
from tracehouse.torch_values import structure
from tracehouse.torch_values.compare import compare

# A trace computes alike for all sizes but for what its kernels choose; a script may branch on any.
_SIZES_OF_A_TRACE = (2, 3, 7, 16, 64)
_SMALL = 3  # rows that are answered otherwise among so few see one another; among more, more may be too many
_GROWTH = 2.0  # the next size may take so many times what a row took in the last

Tensors = dict[str, torch.Tensor]
Dims = Mapping[str, int]  # of each leaf, the dim that its rows stand along


@dataclass(frozen=True)
class NotBatchable:
    """Why requests must be answered one by one."""

    reason: str


def certify(
    target: Target, groups: Groups, up_to: int, budget: Budget, *, ends: ValueBounds | None = None
) -> Batch | NotBatchable:
    """A certificate for up to so many rows, or for fewer where the time is short.

    `ends` are those of the integers that eager takes, where they are known. Eager answers the example.
    """
    refused = None if _candidates(groups) else NotBatchable(_why_none(groups))
    for symbol in _candidates(groups):
        try:
            rows = _Rows(target, symbol, _dims(groups, symbol), ends or {}, budget)
            return rows.certified(up_to)
        except _Refused as error:
            refused = refused or NotBatchable(str(error))
        if budget.is_spent:
            budget.leave_out(f"whether rows along {symbol} see one another")
            break
    return refused or NotBatchable("no input has rows")


def _candidates(groups: Groups) -> list[str]:
    """Symbols that stand alone as a dim of every input, the foremost dim first."""
    found = [symbol for symbol in groups.symbols if groups.shapes.keys() == _dims(groups, symbol).keys()]
    return sorted(found, key=lambda symbol: max(_dims(groups, symbol).values()))


def _dims(groups: Groups, symbol: str) -> dict[str, int]:
    """Of the inputs that have the symbol as one dim, and in no other."""
    mentioned = {path: [place for place, dim in enumerate(shape) if _mentions(dim, symbol)]
                 for path, shape in groups.shapes.items()}  # fmt: skip
    return {path: places[0] for path, places in mentioned.items()
            if len(places) == 1 and groups.shapes[path][places[0]] == symbol}  # fmt: skip


def _mentions(dim: SymbolicDim, symbol: str) -> bool:
    return isinstance(dim, str) and symbol in dict(parse_dim(dim).terms)


def _why_none(groups: Groups) -> str:
    if not groups.symbols:
        return "no size of an input may vary"
    symbol = max(groups.symbols, key=lambda symbol: len(_dims(groups, symbol)))
    without = ", ".join(repr(path) for path in groups.shapes if path not in _dims(groups, symbol))
    return f"not every input has rows along {symbol}: only requests with the same {without} could be answered together"


class _Refused(Exception):
    """The rows see one another, or are none; as text, how that shows."""


class _Rows:
    """Rows of several kinds along one symbol, and what the artifact answers to each alone."""

    def __init__(self, target: Target, symbol: str, dims: Dims, ends: ValueBounds, budget: Budget) -> None:
        self._target = target
        self._symbol = symbol
        self._dims = dims
        integers = {path: tensor for path, tensor in target.call.tensors.items()
                    if not tensor.is_floating_point() and tensor.dtype is not torch.bool}  # fmt: skip
        self._ends = {path: ends[path] if path in ends else find_extremes(tensor) for path, tensor in integers.items()}
        self._budget = budget
        self._nests: Structure | None = None
        self._row_s = 0.0  # what each took in the last call

    def certified(self, up_to: int) -> Batch:
        """Raises _Refused."""
        self._rows = self._taken()
        self._alone = [self._answer([row]) for row in self._rows]
        self._outputs = self._found_outputs()
        self._check_eager()
        certified = self._largest(up_to)
        self._check_others_do_not_show(min(certified, _SMALL))
        return Batch(symbol=self._symbol, up_to=certified, inputs=dict(self._dims), outputs=self._outputs)

    def _taken(self) -> list[Row]:
        """The first kinds of rows that eager takes, of which not all are the same."""
        for rows in drawn_rows.draw_rows(self._target.call.tensors, self._dims, self._target.seed):
            if self._eager_answer(rows) is not None and self._eager_answer(rows[:1]) is not None:
                return rows
        raise _Refused(f"eager takes no rows along {self._symbol} that differ from one another, or not one alone")

    def _found_outputs(self) -> dict[str, int]:
        """The dim of each output that has as many places as there are rows."""
        one, two, three = self._alone[0], *(self._answer(self._rows_of(range(rows))) for rows in (2, 3))
        if not one:
            raise _Refused("it returns no tensor")
        found = {}
        for path in one:
            shapes = [list(answer[path].shape) for answer in (one, two, three)]
            moved = [dim for dim, sizes in enumerate(zip(*shapes, strict=False)) if len({*sizes}) > 1]
            if len({*map(len, shapes)}) > 1 or [[shape[dim] for shape in shapes] for dim in moved] != [[1, 2, 3]]:
                raise _Refused(f"{path!r} has no rows: it is {shapes[0]}, {shapes[1]} and {shapes[2]} for 1, 2 and 3")
            if any(answer[path].shape != one[path].shape for answer in self._alone):
                raise _Refused(f"{path!r} is of one shape for some rows, and of another for others")
            found[path] = moved[0]
        return found

    def _check_eager(self) -> None:
        """The model's own rows, once."""
        eager = self._eager_answer(self._rows)
        if eager is None:
            raise _Refused("eager took too long to answer the same rows again")
        self._compare(eager, self._expected(range(len(self._rows))), "eager answers rows together otherwise: ")

    def _largest(self, up_to: int) -> int:
        """The most rows that were answered as each of them is alone."""
        certified = 0
        traced = self._target.form != "scripted"
        sizes = [size for size in _SIZES_OF_A_TRACE if size < up_to] if traced else [*range(2, up_to)]
        for size in [*sizes, up_to]:
            if size > 1 and not self._has_time_for(size):
                self._budget.leave_out(f"{size} rows along {self._symbol} at once")
                break
            try:
                self._check_together([(place + size) % len(self._rows) for place in range(size)])
            except _Refused:
                if size <= _SMALL:
                    raise
                break
            certified = size
        if certified < 2:
            raise _Refused(f"there was no time for two rows along {self._symbol}")
        self._check_together([*reversed(range(min(certified, len(self._rows))))])
        return certified

    def _check_together(self, places: Sequence[int]) -> None:
        answer = self._answer(self._rows_of(places))
        self._compare(answer, self._expected(places), f"{len(places)} rows are answered otherwise than each alone: ")

    def _check_others_do_not_show(self, count: int) -> None:
        """The first row beside others that hold what no row should."""
        row, *others = self._rows_of(range(count))
        for name, change in drawn_rows.make_intrusive_changes(self._ends):
            changed = [change(other) for other in others]
            if all(map(drawn_rows.is_same, changed, others)):
                continue
            answer = self._answer([row, *changed])
            first = {path: answer[path].narrow(dim, 0, 1) for path, dim in self._outputs.items()}
            self._compare(first, self._alone[0], f"{name} in other rows show: ")

    def _rows_of(self, places: Iterable[int]) -> list[Row]:
        return [self._rows[place % len(self._rows)] for place in places]

    def _expected(self, places: Iterable[int]) -> Tensors:
        """The answers to each row alone, one after the other."""
        alone = [self._alone[place % len(self._rows)] for place in places]
        return {path: torch.cat([answer[path] for answer in alone], dim) for path, dim in self._outputs.items()}

    def _answer(self, rows: Sequence[Row]) -> Tensors:
        """The artifact's. Raises _Refused."""
        if self._budget.is_spent:
            raise _Refused("there was no time to try")
        started = time.monotonic()
        try:
            answer = call_artifact(self._target.artifact, self._call(rows), self._target.seed)
        except Exception as error:
            if is_out_of_memory(error):
                raise _Refused(f"{len(rows)} rows at once need too much memory") from error
            raise _Refused(f"it raises on {len(rows)} rows along {self._symbol}") from error
        self._row_s = (time.monotonic() - started) / len(rows)
        if answer.drew:
            raise _Refused("it draws random numbers, and each row others where it stands elsewhere")
        return self._leaves(answer)

    def _eager_answer(self, rows: Sequence[Row]) -> Tensors | None:
        """None where it raises, or takes too long."""
        if self._budget.is_spent:
            raise _Refused("there was no time to try")
        try:
            answer = self._target.eager.answer(
                self._call(rows), within_s=min(CALL_LIMITS.batched_rows_s, self._budget.left_s) or CALL_LIMITS.least_s
            )
        except (ServiceError, TooSlow):
            return None
        return self._leaves(answer)

    def _leaves(self, answer: Answer) -> Tensors:
        """Raises _Refused where there are other ones than before."""
        leaves = structure.tensors(answer.outputs, "output")
        nests = structure.describe(answer.outputs, "output")
        self._nests = self._nests or nests
        if nests != self._nests:
            raise _Refused(f"what it returns beside its tensors, or how they nest, changes with {self._symbol}")
        return leaves

    def _compare(self, answer: Tensors, expected: Tensors, otherwise: str) -> None:
        """Raises _Refused."""
        difference = compare(expected, answer, self._target.tolerance, sides=("a row alone", "with others")).difference
        if difference is not None:
            raise _Refused(f"{otherwise}{difference.leaf.removeprefix('output.')}: {difference.what}")

    def _has_time_for(self, rows: int) -> bool:
        return self._row_s * rows * _GROWTH < self._budget.left_s

    def _call(self, rows: Sequence[Row]) -> Call:
        return self._target.call.with_tensors(drawn_rows.join_rows(rows, self._dims))
