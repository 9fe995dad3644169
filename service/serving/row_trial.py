"""The row trial: whether rows are answered with the same bytes wherever they stand, and whatever stands beside them.

Rows are drawn, and the artifact is called with several numbers of them, in other orders each time. torch and the
libraries below it choose their code by the number of rows, and work on what is left over after the last whole vector
otherwise. So the bytes of a row may change with how many rows there are, and even with its place. For most models they
do not from two rows on, which these calls find out. They are samples: nothing is proven.
"""

import hashlib
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from service.domain.bitwise import BatchLevel, RowTrial
from service.serving.pending_call import JOINED_MAX_BYTES
from service.serving.served_method import Accepted, ServedMethod
from tracehouse.contract.contract import check_values
from tracehouse.differential import random_inputs
from tracehouse.errors import AnswerTooLarge, ContractViolation, GraphRaised, InferenceTimeout
from tracehouse.tensors.tensor import Datatype, Tensor, TensorSpec, array, array_bytes

# The numbers of rows that calls may have. Chosen: filled up to the next one, a call does at most half for nothing.
_ROW_COUNTS = (1, 2, 4, 8, 16, 32, 64)
# A request that is alone is filled up to at most so many rows. Chosen.
_FILLED_MAX = 4
# Kinds of values that rows are drawn with, and how often each number of rows is tried with them. Chosen.
_DRAWS, _ROUNDS = 3, 2
# Shapes of one artifact that are tried, and the time for all of them. Chosen.
_SHAPES_MAX, _TRIAL_S = 4, 10.0
# Calls whose shortest says how long one takes: the first are slower, and others may use the processor. Chosen.
_TIMED = 5
_ODD = (np.nan, np.inf, -np.inf, 3e38, 1e-40)

# Asks the artifact, by itself, for what it answers to rows.
Ask = Callable[[str, Sequence[Tensor]], Awaitable[list[Tensor]]]
Cases = Mapping[str, Sequence[Sequence[Tensor]]]  # the inputs of golden cases, by method


class _NotRepeated(Exception):
    """The rows cannot be answered with bytes that are known before; the text says why."""


async def try_rows(ask: Ask, served: Mapping[str, ServedMethod], cases: Cases, place: int) -> list[RowTrial]:
    """Return what calls show of the rows of each shape that the golden cases have, of the artifact at this place.

    A shape without a batch certificate is left out. Raises what `ask` raises, unless the
    artifact refuses what is drawn.
    """
    found: dict[object, tuple[str, Accepted]] = {}
    for method, inputs in ((method, inputs) for method, each in cases.items() for inputs in each):
        accepted = _accept(served[method], inputs)
        if accepted is not None and accepted.place == place and accepted.joining is not None:
            found.setdefault((method, accepted.joining.key), (method, accepted))
    shapes = [*found.values()][:_SHAPES_MAX]
    return [
        await _Trial(ask, served[method], method, accepted).run(_TRIAL_S / len(shapes)) for method, accepted in shapes
    ]


@dataclass(frozen=True)
class _Rows:
    """Drawn rows. Only the `compared` ones are looked at: the others have odd values."""

    tensors: list[Tensor]
    compared: range

    def pick(self, places: Sequence[int]) -> list[Tensor]:
        return [_pick(one, places) for one in self.tensors]


class _Trial:
    """Tries the rows of one shape, like those of `accepted`."""

    def __init__(self, ask: Ask, served: ServedMethod, method: str, accepted: Accepted) -> None:
        self._ask = ask
        self._method = method
        self._specs = served.contracts[accepted.place].at_ranks(accepted.tensors).inputs
        self._example = accepted.tensors
        assert accepted.joining is not None
        row_bytes = sum(len(one.data) // one.shape[0] for one in accepted.tensors)
        self._counts = [
            count for count in _ROW_COUNTS if accepted.joining.takes(count) and count * row_bytes <= JOINED_MAX_BYTES
        ]
        self._rng = np.random.default_rng()
        # By the number of rows, and by draw and row, the hashes of the answers.
        self._seen: dict[int, dict[tuple[int, int], set[bytes]]] = {count: defaultdict(set) for count in self._counts}
        self._calls = 0

    async def run(self, within_s: float) -> RowTrial:
        inputs = [TensorSpec(name=one.name, datatype=one.datatype, shape=(1, *one.shape[1:])) for one in self._example]
        try:
            rows = await self._find_counts(within_s)
        except _NotRepeated as error:
            rows, level, why = [], BatchLevel.NUMERIC, str(error)
        else:
            level, why = BatchLevel.BITWISE, "in all calls, each row was answered with the same bytes"
        return RowTrial(method=self._method, inputs=inputs, level=level, rows=rows, calls=self._calls, why=why)

    async def _find_counts(self, within_s: float) -> list[int]:
        """Return the numbers of rows with which all rows are answered with the same bytes. Raises _NotRepeated."""
        try:
            await self._limit_time(within_s)
            drawn = [number for number, rows in enumerate(self._draw()) if await self._try(number, rows)]
        except (AnswerTooLarge, InferenceTimeout) as error:
            raise _NotRepeated(f"the trial was not made to its end: {error.detail}") from error
        if not drawn:
            raise _NotRepeated("the artifact raises on all rows that were drawn")
        steady: dict[object, list[int]] = defaultdict(list)
        for count in self._counts:
            answers = {key: hashes for key, hashes in self._seen[count].items() if key[0] in drawn}
            if all(len(hashes) == 1 for hashes in answers.values()):
                steady[frozenset((key, *hashes) for key, hashes in answers.items())].append(count)
        usable = [counts for counts in steady.values() if counts[0] <= _FILLED_MAX and counts[-1] > 1]
        if not usable:
            raise _NotRepeated(
                "the bytes of a row's answer changed with its place, the rows beside it, or the number of rows"
            )
        return max(usable, key=lambda counts: (len(counts), counts[-1]))

    async def _limit_time(self, within_s: float) -> None:
        """Leave out the largest numbers of rows as far as there is no time for them. Raises _NotRepeated."""
        if len(self._counts) < 2:
            raise _NotRepeated("the contract takes too few rows together")
        few = self._draw_rows(0, self._counts[0])
        if few is None:
            raise _NotRepeated("no rows could be drawn that the contract takes")
        taken_s = []
        for _ in range(_TIMED):
            began = time.monotonic()
            with suppress(GraphRaised):  # the draws say more of that
                await self._ask(self._method, few.tensors)
            taken_s.append(time.monotonic() - began)
        row_s = (_DRAWS + 1) * _ROUNDS * min(taken_s) / self._counts[0]
        while len(self._counts) > 1 and row_s * len(self._counts) * self._rows_drawn > within_s:
            self._counts.pop()
        if self._counts[-1] < 2:
            raise _NotRepeated("a call takes too long for a trial")

    @property
    def _rows_drawn(self) -> int:
        """Twice as many as the largest call has, so that its rows have other ones beside them each time."""
        return 2 * self._counts[-1]

    def _draw(self) -> Iterator[_Rows]:
        """Yield rows of several kinds of values; those of the last one stand between rows of odd values."""
        for number in range(_DRAWS):
            if (rows := self._draw_rows(number, self._rows_drawn)) is not None:
                yield rows
                if number == 0 and any(one.datatype.is_float for one in rows.tensors):
                    yield _Rows([_make_odd(one) for one in rows.tensors], range(0, self._rows_drawn, 2))

    def _draw_rows(self, number: int, count: int) -> _Rows | None:
        """Return rows of values that the contract takes; None if it does not take such as are drawn."""
        shapes = {one.name: (count, *one.shape[1:]) for one in self._example}
        rows = random_inputs.draw_sized(self._example, shapes, number, self._rng)
        try:
            for spec, one in zip(self._specs, rows, strict=True):
                check_values(spec, one)
        except ContractViolation:
            return None
        return _Rows(rows, range(count))

    async def _try(self, number: int, rows: _Rows) -> bool:
        """Call with these rows in several orders and numbers; whether the artifact answered all of that."""
        try:
            for _ in range(_ROUNDS):
                for count in self._counts:
                    order = [int(place) for place in self._rng.permutation(self._rows_drawn)]
                    for start in range(0, len(order), count):
                        await self._call(number, rows, order[start : start + count])
        except GraphRaised:
            return False
        return True

    async def _call(self, number: int, rows: _Rows, places: Sequence[int]) -> None:
        self._calls += 1
        answered = await self._ask(self._method, rows.pick(places))
        if any(not one.shape or one.shape[0] != len(places) for one in answered):
            raise _NotRepeated("the artifact returned another number of rows than it was given")
        for at, place in enumerate(places):
            if place in rows.compared:
                joined = b"".join(_pick(one, [at]).data for one in answered)
                self._seen[len(places)][number, place].add(hashlib.blake2b(joined, digest_size=16).digest())


def _accept(served: ServedMethod, inputs: Sequence[Tensor]) -> Accepted | None:
    try:
        return served.accept(inputs)
    except ContractViolation:
        return None


def _pick(tensor: Tensor, places: Sequence[int]) -> Tensor:
    data, row_bytes = memoryview(tensor.data), len(tensor.data) // tensor.shape[0]
    picked = b"".join(data[place * row_bytes : (place + 1) * row_bytes] for place in places)
    return Tensor(tensor.name, tensor.datatype, (len(places), *tensor.shape[1:]), picked)


def _make_odd(tensor: Tensor) -> Tensor:
    """Return the tensor with odd values in each second row, if it has floats."""
    if not tensor.datatype.is_float:
        return tensor
    values = array(tensor.datatype, tensor.data)
    wide = values.astype(np.float32 if tensor.datatype is Datatype.BF16 else values.dtype).reshape(tensor.shape[0], -1)
    with np.errstate(over="ignore"):
        for place in range(1, len(wide), 2):
            wide[place] = _ODD[place // 2 % len(_ODD)]
    return Tensor(tensor.name, tensor.datatype, tensor.shape, array_bytes(tensor.datatype, wide.reshape(-1)))
