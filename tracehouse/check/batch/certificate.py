"""Certificate: whether the rows of an artifact's inputs can be answered together.

An artifact is certified if it answers several rows as it answers each of them alone, in any order, whatever the other
rows hold. Only a certified artifact may answer the requests of several clients in one call.

The tests are metamorphic (Chen, Cheung and Yiu, 1998): f(cat(a, b)) = cat(f(a), f(b)), rows in another order give
answers in that order, and extreme values in one row leave the answers to the others as they are. They can only take
a certificate away: rows that meet rarely show in no drawn value. So the operators that the artifact runs must keep rows
apart too (row_flow.py).

If the runs of a proof show that they do for all numbers of rows, a few calls are witnesses to it. Else, and if a
witness disagrees, calls of several numbers of rows decide, whose operators are recorded.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from math import inf

import numpy as np
import torch

from tracehouse.check.batch import drawn_rows
from tracehouse.check.batch.drawn_rows import Row
from tracehouse.check.batch.id_checks import reads_extremes_for_checks_alone
from tracehouse.check.batch.operator_stream import Stream, StreamRecorder
from tracehouse.check.batch.proven_rows import ProvenRows, find_proven_rows
from tracehouse.check.batch.row_flow import find_mixing
from tracehouse.check.batch.row_step import Mixes
from tracehouse.check.calls import CallResult, call_artifact
from tracehouse.check.inputs.probes import ValueBounds
from tracehouse.check.inputs.value_changes import find_extremes
from tracehouse.check.prove.proven_runs import ProvenRuns
from tracehouse.check.size_groups import Groups
from tracehouse.check.target import Target
from tracehouse.check.time_limit import TooSlow
from tracehouse.contract.contract import Batch
from tracehouse.contract.dims import SymbolicDim, parse_dim
from tracehouse.contract.structure import Structure
from tracehouse.differential.budget import Budget
from tracehouse.differential.call_limits import CALL_LIMITS
from tracehouse.eager.call import Call
from tracehouse.eager.error_translation import is_out_of_memory, reports_no_memory
from tracehouse.eager.source import seed_all
from tracehouse.errors import ServiceError
from tracehouse.torch_values import structure
from tracehouse.torch_values.compare import compare

# The numbers of rows that are tested for a trace, which computes the same for all sizes except for what its kernels
# choose. They are a choice. A script may branch on any size, so every number is tested for it.
_SIZES_OF_A_TRACE = (7, 16, 64)
_FIRST_SIZES = (2, 3)  # tested for both: they show which dims of the outputs have the rows
# If at most so many rows are answered differently, they depend on one another. If only more rows are, the number may
# just be too large.
_SMALL = 3
# For so many rows each, the operators are recorded. What grows from one to the other as they do has rows.
_RECORDED = (3, 5)
# Where calls are witnesses to a proof, so many rows come first, and extreme values take the place of none of them.
_PLAIN_ROWS = 2
_WITNESS_ROWS = 5  # so many rows together are witness to a proof; the verification asks for as many as are certified
_GROWTH = 2.0  # a row of the next size may take so many times as long as a row of the last; a choice

Tensors = dict[str, torch.Tensor]
Dims = Mapping[str, int]  # the dim along which each input has its rows, by path


@dataclass(frozen=True)
class NotBatchable:
    """The reason why requests must be answered one by one."""

    reason: str


def certify(
    target: Target,
    groups: Groups,
    up_to: int,
    budget: Budget,
    most_bytes: float = inf,
    *,
    bounds: ValueBounds | None = None,
    runs: ProvenRuns | None = None,
) -> Batch | NotBatchable:
    """Return a certificate for at most `up_to` rows, fewer if the budget is short, or the reason why there is none.

    Rows whose inputs have more than `most_bytes` bytes together are not tried, apart from the first few.

    The first symbol of `groups` along which the rows are independent is certified. `bounds` are the smallest and the
    largest integer that the model accepts in each input, where known. `runs` are those of a proof, if there is one. The
    eager model must accept the example. Nothing that the model or the artifact raises comes out.
    """
    sizes = groups.sizes_of(target.call) if runs is not None else None
    refusal = None if _find_row_symbols(groups) else NotBatchable(_explain_no_rows(groups))
    for symbol in _find_row_symbols(groups):
        try:
            tester = _RowTester(target, symbol, _find_dims(groups, symbol), bounds or {}, budget)
            shown = tester.certify_by_proof(runs, sizes, up_to, most_bytes) if runs is not None and sizes else None
            return shown or tester.certify_by_calls(up_to, most_bytes)
        except _Dependent as error:
            refusal = refusal or NotBatchable(str(error))
        if budget.is_spent:
            budget.leave_out(f"whether rows along {symbol} see one another was not tested")
            break
    return refusal or NotBatchable("no input has rows")


def _find_row_symbols(groups: Groups) -> list[str]:
    """Return the symbols that are exactly one dim of every input, and nothing else in it, the foremost dim first."""
    symbols = [symbol for symbol in groups.symbols if groups.shapes.keys() == _find_dims(groups, symbol).keys()]
    return sorted(symbols, key=lambda symbol: max(_find_dims(groups, symbol).values()))


def _find_dims(groups: Groups, symbol: str) -> dict[str, int]:
    """Return the dim that is the symbol, for each input in which the symbol occurs in one dim only."""
    mentioned = {path: [place for place, dim in enumerate(shape) if _mentions(dim, symbol)]
                 for path, shape in groups.shapes.items()}  # fmt: skip
    return {path: places[0] for path, places in mentioned.items()
            if len(places) == 1 and groups.shapes[path][places[0]] == symbol}  # fmt: skip


def _mentions(dim: SymbolicDim, symbol: str) -> bool:
    return isinstance(dim, str) and symbol in dict(parse_dim(dim).terms)


def _explain_no_rows(groups: Groups) -> str:
    if not groups.symbols:
        return "no size of an input may vary"
    symbol = max(groups.symbols, key=lambda symbol: len(_find_dims(groups, symbol)))
    without = ", ".join(repr(path) for path in groups.shapes if path not in _find_dims(groups, symbol))
    return f"not every input has rows along {symbol}: only requests with the same {without} could be answered together"


class _Dependent(Exception):
    """Rows can't be answered together: they depend on one another, or there are none. The text is the reason."""


class _Refused(Exception):
    """The eager model refuses the drawn rows."""


class _RowTester:
    """Compares the artifact's answers to several rows along one symbol with its answers to each row alone."""

    def __init__(self, target: Target, symbol: str, dims: Dims, bounds: ValueBounds, budget: Budget) -> None:
        self._target = target
        self._symbol = symbol
        self._dims = dims
        integers = {path: tensor for path, tensor in target.call.tensors.items()
                    if not tensor.is_floating_point() and tensor.dtype is not torch.bool}  # fmt: skip
        self._bounds = {
            path: bounds[path] if path in bounds else find_extremes(tensor) for path, tensor in integers.items()
        }
        self._budget = budget
        self._nests: Structure | None = None
        self._row_s = 0.0  # seconds that each row took in the last call

    def certify_by_proof(
        self, runs: ProvenRuns, sizes: Mapping[str, int], up_to: int, most_bytes: float
    ) -> Batch | None:
        """Return the certificate if the runs of a proof show that rows stay apart, and calls bear it out; else None.

        The target's call has these `sizes`. The certificate is for as many rows as are tried by calls without a proof.
        """
        for rows in self._draw_rows():
            up_to = self._limit_rows(rows, up_to, most_bytes)
            try:
                shown = find_proven_rows(runs, sizes, self._symbol, self._dims, up_to)
                self._outputs = dict(shown.outputs)
                self._witness(rows[:_SMALL] if shown.covers_single_rows else rows, up_to, shown)
            except (Mixes, _Dependent):
                self._nests = None
                return None
            except _Refused:
                continue
            return self._certify(up_to)
        return None

    def _witness(self, different: Sequence[Row], up_to: int, shown: ProvenRows) -> None:
        """Raise _Dependent unless calls bear out what is shown, and _Refused if the model refuses these rows.

        The artifact answers one row, and several of the `up_to` rows in an uneven order, some with extreme values, as
        the model answers `different` rows together. If single rows are not covered, each of them is asked alone.
        """
        expected = self._answer_eagerly(different)
        if expected is None:
            raise _Refused
        for kind, row in enumerate(different[:1] if shown.covers_single_rows else different):
            self._compare_places(self._answer([row]), [0], expected, [kind])
        if not self._can_take(up_to):
            raise _Dependent("there is no time for so many rows")
        together = min(up_to, _WITNESS_ROWS)
        intruders = [changed for _, (changed, *_) in self._make_intruders(different[1:])][: together - _PLAIN_ROWS]
        kinds = self._arrange(together - len(intruders), len(different))
        first = kinds[:_PLAIN_ROWS]
        answer = self._answer(
            [*(different[kind] for kind in first), *intruders, *(different[kind] for kind in kinds[len(first) :])]
        )
        places = [place if place < len(first) else place + len(intruders) for place in range(len(kinds))]
        self._compare_places(answer, places, expected, kinds)

    def _arrange(self, count: int, different: int) -> list[int]:
        """Return which row stands at each of so many places: in an order that no shift keeps, each one if they fit."""
        rng = np.random.default_rng(self._target.seed)
        return [*reversed(range(different)), *map(int, rng.integers(0, different, count))][:count]

    def _compare_places(self, answer: Tensors, places: Sequence[int], expected: Tensors, kinds: Sequence[int]) -> None:
        """Raise _Dependent unless the answer to the row at each place is what is expected for the row of its kind."""
        for path, dim in self._outputs.items():
            if len(answer[path].shape) <= dim or answer[path].shape[dim] <= max(places):
                raise _Dependent(f"{path!r} has other rows")
        taken, wanted = (
            {path: tensors[path].index_select(dim, torch.tensor(chosen, device=tensors[path].device))
             for path, dim in self._outputs.items()}
            for tensors, chosen in ((answer, places), (expected, kinds))
        )  # fmt: skip
        self._compare(taken, wanted, "rows are answered together differently than the eager model answers them: ")

    def certify_by_calls(self, up_to: int, most_bytes: float) -> Batch:
        """Return the certificate. Raises _Dependent if there is none."""
        self._rows = self._find_rows()
        up_to = self._limit_rows(self._rows, up_to, most_bytes)
        self._alone = [self._answer([row]) for row in self._rows]
        few = [self._answer(self._pick_rows(range(rows))) for rows in _FIRST_SIZES]
        self._outputs = self._find_outputs(*few)
        self._check_eager()
        for rows, answer in zip(_FIRST_SIZES, few, strict=True):
            self._check_joined(answer, range(rows))
        self._check_operators(_RECORDED)
        certified = self._find_largest(up_to)
        self._check_isolation(certified)
        return self._certify(certified)

    def _certify(self, up_to: int) -> Batch:
        return Batch(symbol=self._symbol, up_to=up_to, inputs=dict(self._dims), outputs=self._outputs)

    def _draw_rows(self) -> Iterator[list[Row]]:
        return drawn_rows.draw_rows(self._target.call.tensors, self._dims, self._target.seed)

    def _limit_rows(self, rows: Sequence[Row], up_to: int, most_bytes: float) -> int:
        """Return how many rows like these may be joined, at most `up_to`, so that they have `most_bytes` at most."""
        row_bytes = self._make_call(rows[:1]).byte_size
        return int(min(up_to, max(_SMALL, most_bytes / max(1, row_bytes))))

    def _find_rows(self) -> list[Row]:
        """Return the first set of different rows that the eager model accepts, and of which it accepts one alone.

        Raises _Dependent if there is no such set.
        """
        for rows in self._draw_rows():
            together = self._answer_eagerly(rows)
            if together is not None and self._answer_eagerly(rows[:1]) is not None:
                self._eager_together = together
                return rows
        raise _Dependent(
            f"the eager model accepts no different rows along {self._symbol} together, or not one of them alone"
        )

    def _find_outputs(self, two: Tensors, three: Tensors) -> dict[str, int]:
        """Return for each output the dim whose size is the number of rows, given the answers to two and three rows.

        Raises _Dependent if one has no such dim.
        """
        one = self._alone[0]
        if not one:
            raise _Dependent("the artifact returns no tensor")
        dims = {}
        for path in one:
            shapes = [list(answer[path].shape) for answer in (one, two, three)]
            moved = [dim for dim, sizes in enumerate(zip(*shapes, strict=False)) if len({*sizes}) > 1]
            if len({*map(len, shapes)}) > 1 or [[shape[dim] for shape in shapes] for dim in moved] != [[1, 2, 3]]:
                raise _Dependent(
                    f"{path!r} has no rows: its shape is {shapes[0]}, {shapes[1]} and {shapes[2]} for 1, 2 and 3 rows"
                )
            if any(answer[path].shape != one[path].shape for answer in self._alone):
                raise _Dependent(f"{path!r} has one shape for some rows, and another shape for other rows")
            dims[path] = moved[0]
        return dims

    def _check_eager(self) -> None:
        """Raise _Dependent unless the eager model answers rows together as the artifact answers each alone."""
        self._compare(
            self._eager_together,
            self._join_alone(range(len(self._rows))),
            "the eager model answers rows together differently than the artifact answers each alone: ",
        )

    def _check_operators(self, rows: Sequence[int]) -> None:
        """Raise _Dependent if an operator that the artifact runs for so many rows may mix them, whatever they hold."""
        streams = [self._record_operators(self._pick_rows(range(count))) for count in rows]
        checks_ids = reads_extremes_for_checks_alone(self._target.artifact, self._target.call.method)
        mixing = find_mixing(streams, rows, self._dims, self._outputs, checks_ids=checks_ids)
        if mixing is not None:
            raise _Dependent(mixing)

    def _record_operators(self, rows: Sequence[Row]) -> Stream:
        """Return the operators that the artifact runs on these rows. Raises _Dependent if it gives no answer."""
        if self._budget.is_spent:
            raise _Dependent(f"there was no time to follow rows along {self._symbol} through the operators")
        call, artifact = self._make_call(rows).clone(), self._target.artifact
        seed_all(self._target.seed)
        recorder = StreamRecorder(call.tensors, [*artifact.parameters(), *artifact.buffers()])
        try:
            with torch.no_grad(), recorder:
                outputs = call.run_traced(artifact)
        except Exception as error:
            raise _Dependent(f"the artifact raises on {len(rows)} rows along {self._symbol}") from error
        recorder.name_outputs(structure.tensors(outputs, "output"))
        return recorder.stream

    def _find_largest(self, up_to: int) -> int:
        """Return the largest tested number of rows that the artifact answers together as it answers each alone.

        Raises _Dependent if that is less than two.
        """
        if self._target.form != "scripted":
            return self._find_largest_of_trace(up_to)
        certified = 0
        for size in range(2, up_to + 1):
            if not self._has_time_for(size):
                break
            try:
                self._check_together([place + size for place in range(size)])
                if size not in _RECORDED:
                    self._check_operators([_RECORDED[0], size])
            except _Dependent:
                if size <= _SMALL:
                    raise
                break
            certified = size
        if certified < 2:
            raise _Dependent(f"there was no time to test two rows along {self._symbol}")
        self._check_together([*reversed(range(min(certified, len(self._rows))))])
        return certified

    def _find_largest_of_trace(self, up_to: int) -> int:
        """Return the largest number, after few rows were compared. Raises _Dependent if the order of few counts."""
        sizes = [*(size for size in _SIZES_OF_A_TRACE if _SMALL < size < up_to), max(_SMALL, up_to)]
        # A number that is not far below the largest is asked only where that is answered otherwise.
        near = sizes.pop(-2) if len(sizes) > 1 and 2 * sizes[-2] > sizes[-1] else None
        # Each is asked: kernels may answer some number of rows otherwise, and a larger one as they answer each.
        certified = [*takewhile(self._agrees_together, sizes)] if up_to > _SMALL else []
        if near is not None and certified == sizes[:-1] and self._agrees_together(near):
            certified.append(near)
        if not certified:
            few = min(up_to, _SMALL)
            self._check_together([*reversed(range(few))])
            return few
        return certified[-1]

    def _agrees_together(self, rows: int) -> bool:
        """Whether so many rows are answered together as each alone; no if there is no time to find out."""
        if not self._has_time_for(rows):
            return False
        try:
            self._check_together([rows - place for place in range(rows)])
        except _Dependent:
            return False
        return True

    def _check_together(self, places: Sequence[int]) -> None:
        self._check_joined(self._answer(self._pick_rows(places)), places)

    def _check_joined(self, answer: Tensors, places: Sequence[int]) -> None:
        """Raise _Dependent if the answer to these rows together differs from those to each alone."""
        self._compare(
            answer,
            self._join_alone(places),
            f"the artifact answers {len(places)} rows together differently than each alone: ",
        )

    def _check_isolation(self, certified: int) -> None:
        """Raise _Dependent unless the answer to the first row stays the same beside rows with extreme values.

        All of these are tried in one call, if so many rows may be answered together.
        """
        row, *others = self._pick_rows(range(min(certified, _SMALL)))
        intruders = dict(self._make_intruders(others))
        if len(intruders) < certified:
            try:
                self._check_beside(row, [changed[0] for changed in intruders.values()], "extreme values")
            except _Dependent:
                self._check_each_beside(row, intruders)  # which of them
                raise
        else:
            self._check_each_beside(row, intruders)

    def _make_intruders(self, others: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
        """Yield these rows with each kind of extreme values that changes one of them, and its name."""
        for name, change in drawn_rows.make_intrusive_changes(self._bounds):
            changed = [change(other) for other in others]
            if not all(map(drawn_rows.is_same_row, changed, others)):
                yield name, changed

    def _check_each_beside(self, row: Row, intruders: Mapping[str, Sequence[Row]]) -> None:
        for name, changed in intruders.items():
            self._check_beside(row, changed, name)

    def _check_beside(self, row: Row, others: Sequence[Row], name: str) -> None:
        """Raise _Dependent unless the row is answered beside the others as it is alone; `name` says what they have."""
        answer = self._answer([row, *others])
        first = {path: answer[path].narrow(dim, 0, 1) for path, dim in self._outputs.items()}
        self._compare(first, self._alone[0], f"the answer to a row changes with {name} in other rows: ")

    def _pick_rows(self, places: Iterable[int]) -> list[Row]:
        return [self._rows[place % len(self._rows)] for place in places]

    def _join_alone(self, places: Iterable[int]) -> Tensors:
        """Return the answers to each of these rows alone, joined one after the other."""
        alone = [self._alone[place % len(self._rows)] for place in places]
        return {path: torch.cat([answer[path] for answer in alone], dim) for path, dim in self._outputs.items()}

    def _answer(self, rows: Sequence[Row]) -> Tensors:
        """Return the output tensors of the artifact. Raises _Dependent if it gives no answer that can be compared."""
        if self._budget.is_spent:
            raise _Dependent(f"there was no time to test rows along {self._symbol}")
        started = time.monotonic()
        try:
            answer = call_artifact(self._target.artifact, self._make_call(rows), self._target.eager.seed)
        except Exception as error:
            if is_out_of_memory(error):
                raise self._too_large(rows) from error
            raise _Dependent(f"the artifact raises on {len(rows)} rows along {self._symbol}") from error
        self._row_s = (time.monotonic() - started) / len(rows)
        if answer.drew:
            raise _Dependent("the artifact draws random numbers, and a row gets other numbers in another place")
        return self._extract_tensors(answer)

    def _answer_eagerly(self, rows: Sequence[Row]) -> Tensors | None:
        """Return the output tensors of the eager model; None if it raises or takes too long.

        Raises _Dependent if the budget is spent, or the outputs nest differently than before.
        """
        if self._budget.is_spent:
            raise _Dependent(f"there was no time to test rows along {self._symbol}")
        try:
            answer = self._target.eager.answer(
                self._make_call(rows),
                within_s=min(CALL_LIMITS.batched_rows_s, self._budget.left_s) or CALL_LIMITS.least_s,
            )
        except (ServiceError, TooSlow) as error:
            if reports_no_memory(error):
                raise self._too_large(rows) from error
            return None
        return self._extract_tensors(answer)

    def _too_large(self, rows: Sequence[Row]) -> "_Dependent":
        self._budget.leave_out(f"whether rows along {self._symbol} see one another, for lack of memory")
        return _Dependent(f"{len(rows)} rows together need too much memory")

    def _extract_tensors(self, answer: CallResult) -> Tensors:
        """Return the tensors of an answer. Raises _Dependent if they nest differently than before."""
        leaves = structure.tensors(answer.outputs, "output")
        nests = structure.describe(answer.outputs, "output")
        self._nests = self._nests or nests
        if nests != self._nests:
            raise _Dependent(
                f"the values returned beside the tensors, or the nesting of the outputs, change with {self._symbol}"
            )
        return leaves

    def _compare(self, answer: Tensors, expected: Tensors, otherwise: str) -> None:
        """Raise _Dependent if the two differ."""
        difference = compare(expected, answer, self._target.tolerance, sides=("a row alone", "with others")).difference
        if difference is not None:
            raise _Dependent(f"{otherwise}{difference.leaf.removeprefix('output.')}: {difference.what}")

    def _has_time_for(self, rows: int) -> bool:
        """Whether there is time for a call of so many rows. If not, it is reported."""
        can_take = self._can_take(rows)
        if not can_take:
            self._budget.leave_out(f"{rows} rows along {self._symbol} were not tested together")
        return can_take

    def _can_take(self, rows: int) -> bool:
        return self._row_s * rows * _GROWTH < self._budget.left_s

    def _make_call(self, rows: Sequence[Row]) -> Call:
        return self._target.call.with_tensors(drawn_rows.join_rows(rows, self._dims))
