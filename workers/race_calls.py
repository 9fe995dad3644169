"""Race calls: the calls by which two forms of one artifact are compared, over all that its contract takes.

They have the sizes at the corners and in the middle of each region, all datatypes, values like the example's, and
values at which fast code is known to answer otherwise: not a number, infinities, the largest and the smallest numbers,
zeros, the largest numbers that a form for usual values answers, integers that no table has, and masks that take all
or nothing.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, zip_longest

import numpy as np

from service.domain.form_race import REGIONS_MAX
from tracehouse.contract.contract import Batch, MethodContract
from tracehouse.contract.dims import format_sizes, solve
from tracehouse.contract.regions import Region
from tracehouse.differential import size_samples
from tracehouse.differential.bound_call import BoundCall
from tracehouse.differential.datatype_combinations import COMBINATIONS_MAX, combine
from tracehouse.differential.size_samples import Sizes
from tracehouse.errors import ContractViolation
from tracehouse.forms.usual_max import usual_max
from tracehouse.tensors.tensor import Datatype, Tensor, array, cast
from workers.verification.sized_inputs import SizedInputs

# Of the sizes of all regions. At each size, so many draws of values are called. Chosen.
_SIZES_MAX, _DRAWS = 10, 3
# Beside all inputs at once, so many inputs get each odd value alone.
_ALONE_MAX = 4
_TINY, _HUGE = 1e-40, 3e38
_ODD_FLOATS = {"not a number": np.nan, "inf": np.inf, "-inf": -np.inf, "3e38": _HUGE, "1e-40": _TINY, "0": 0.0}


@dataclass(frozen=True)
class RaceCall:
    """Inputs that the contract takes, in its order, and what they are called where a form is out because of them."""

    name: str
    inputs: list[Tensor]


@dataclass(frozen=True)
class JoinedRows:
    """Two requests whose rows may be answered together."""

    name: str
    requests: list[list[Tensor]]
    batch: Batch


class RaceCalls:
    """The calls of one method, whose golden cases are given by their inputs. The first one is the example.

    Raises ValueError if its inputs are not the contract's.
    """

    def __init__(self, method: str, contract: MethodContract, cases: Sequence[Sequence[Tensor]], seed: int) -> None:
        self._contract = contract
        self._cases = [contract.accept(inputs).tensors for inputs in cases]
        if not self._cases:
            raise ValueError("there is no golden case")
        self._rng = np.random.default_rng(seed)
        self._usual_max = usual_max(one for case in self._cases for one in case)
        example = self._cases[0]
        sizes = solve([(spec.shape, one.shape) for spec, one in zip(contract.inputs, example, strict=True)])
        if sizes is None:
            raise ValueError("the sizes of the first golden case do not follow from its shapes")
        self._example_sizes = sizes
        self.call = BoundCall("example", method, contract.arguments, example, returns=contract.returns)
        ranges = {spec.name: spec.values for spec in contract.inputs if spec.values is not None}
        self._inputs = SizedInputs(self.call, contract, ranges, self._rng)
        self._most_bytes = size_samples.most_input_bytes(sum(len(one.data) for one in example))

    def compared(self) -> list[RaceCall]:
        """Return the calls that both forms have to answer alike."""
        sizes = self._sizes()
        return [
            *(RaceCall(f"golden case {number}", inputs) for number, inputs in enumerate(self._cases)),
            *(call for one in sizes for call in self._values_at(one)),
            *(call for one in (sizes[0], sizes[-1]) for call in self._datatypes_at(one)),
            *(call for one in self._telling(sizes) for call in self._odd_values_at(one)),
        ]

    def joined(self) -> list[JoinedRows]:
        """Return requests whose rows are to be answered together as each alone: few rows, and many."""
        batch = self._contract.batch
        if batch is None or batch.symbol not in self._example_sizes:
            return []
        fitting = [pair for pair in _pairs(batch) if self._fits(self._rows(batch, sum(pair)))]
        chosen = dict.fromkeys([*fitting[:1], *fitting[-1:]])
        return [joined for pair in chosen if (joined := self._join(batch, pair)) is not None]

    def timed(self) -> list[RaceCall]:
        """Return the calls whose time counts: the example's, the smallest and the largest."""
        sizes = size_samples.sort_sizes(self._sizes())
        found = {"example": self._cases[0]}
        for name, one in (("smallest", sizes[0]), ("largest", sizes[-1])):
            inputs = self._accepted(self._inputs.tile(one))
            if inputs is not None and any(each.data for each in inputs):
                found[name] = inputs
        shapes = {tuple(one.shape for one in inputs): RaceCall(name, inputs) for name, inputs in found.items()}
        return [*shapes.values()]

    def output_datatypes(self, call: RaceCall) -> dict[str, Datatype]:
        """Return the datatypes of what the contract says that the call returns, by name."""
        return self._contract.output_datatypes(call.inputs)

    def _sizes(self) -> list[dict[str, int]]:
        """Return the example's sizes, then others from small to large. What would be too large is made smaller."""
        example = dict(self._example_sizes)
        found = [[*self._sizes_of(region)] for region in self._contract.regions[:REGIONS_MAX]]
        # By turns, so that each region has some: first the smallest and the largest of each.
        by_turns = (one for turn in zip_longest(*found) for one in turn if one is not None)
        others = [one for one in size_samples.drop_duplicates(by_turns) if one != example]
        return [example, *size_samples.sort_sizes(others[: _SIZES_MAX - 1])]

    def _sizes_of(self, region: Region) -> Iterator[dict[str, int]]:
        """Yield sizes of the region, those first that tell most. What would be too large is made smaller."""
        corners = size_samples.corner_sizes(region, every=False)
        beyond = size_samples.beyond_sizes(region, self._example_sizes, self._rng)
        drawn = islice(size_samples.draw_sizes(region, self._rng), 1)
        for one in (corners[0], corners[-1], *beyond[-1:], self._middle(region), *corners, *drawn, *beyond):
            if (fitted := self._fit(one, region)) is not None:
                yield fitted

    def _middle(self, region: Region) -> dict[str, int]:
        return {
            symbol: size_samples.nearest_size(spans, round((spans[0].low * spans[-1].high) ** 0.5))
            for symbol, spans in region.spans.items()
        }

    def _fit(self, sizes: Sizes, region: Region) -> dict[str, int] | None:
        fitted: dict[str, int] | None = dict(sizes)
        while fitted is not None and not self._fits(fitted):
            fitted = size_samples.shrink_sizes(fitted, region)
        return fitted

    def _fits(self, sizes: Sizes) -> bool:
        return self._inputs.are_possible(sizes) and self._inputs.byte_size(sizes) <= self._most_bytes

    def _telling(self, sizes: Sequence[dict[str, int]]) -> list[dict[str, int]]:
        """Return the example's sizes, and the smallest at which there are values."""
        small = (one for one in sizes[1:] if all(size > 0 for size in one.values()))
        return [sizes[0], *islice(small, 1)]

    def _values_at(self, sizes: Sizes) -> Iterator[RaceCall]:
        where = format_sizes(sizes) or "the example's sizes"
        for number in range(_DRAWS):
            yield from self._call(f"{where}, draw {number}", self._inputs.draw(sizes, number))
        yield from self._call(f"{where}, the example's values", self._inputs.tile(sizes))

    def _datatypes_at(self, sizes: Sizes) -> Iterator[RaceCall]:
        several = {spec.name: spec.datatypes for spec in self._contract.inputs if spec.datatypes}
        for changed in islice(combine(several), COMBINATIONS_MAX):
            drawn = self._inputs.draw(sizes, 0)
            named = ", ".join(f"{name} {datatype}" for name, datatype in changed.items())
            yield from self._call(named, [cast(one, changed.get(one.name, one.datatype)) for one in drawn])

    def _odd_values_at(self, sizes: Sizes) -> Iterator[RaceCall]:
        names = [one.name for one in self.call.inputs]
        groups = [names, *([name] for name in names[:_ALONE_MAX] if len(names) > 1)]
        tiled = self._inputs.tile(sizes)
        where = format_sizes(sizes) or "the example's sizes"
        for group in groups:
            for what, changed in self._odd_values(tiled, set(group)):
                if changed == tiled:  # it has no such values
                    continue
                yield from self._call(f"{where}, {what} in {', '.join(group)}", changed)

    def _odd_values(self, inputs: Sequence[Tensor], names: set[str]) -> Iterator[tuple[str, list[Tensor]]]:
        """Yield inputs with an odd value at one place of each of these, and with nothing else."""
        ends = {f"{value:g}": value for value in (self._usual_max, -self._usual_max, -0.0)}
        for what, value in (_ODD_FLOATS | ends).items():
            yield what, [self._put(one, value) if one.name in names else one for one in inputs]
            yield f"only {what}", [_fill(one, value) if one.name in names else one for one in inputs]
        what = f"{self._usual_max:g} and -{self._usual_max:g}"
        yield what, [self._put_signs(one) if one.name in names else one for one in inputs]
        for truth in (False, True):
            yield f"only {truth}", [_fill_truth(one, truth) if one.name in names else one for one in inputs]
        yield "only 0 as integers", [_fill_zeros(one) if one.name in names else one for one in inputs]
        for what in ("-1", "the least integer", "the largest integer"):
            yield what, [self._put_integer(one, what) if one.name in names else one for one in inputs]

    def _put(self, tensor: Tensor, value: float) -> Tensor:
        if not tensor.datatype.is_float or not tensor.data:
            return tensor
        values = array(tensor.datatype, tensor.data).astype(np.float64)
        values[self._rng.integers(0, values.size)] = value
        return _floats(tensor, values)

    def _put_signs(self, tensor: Tensor) -> Tensor:
        if not tensor.datatype.is_float:
            return tensor
        signs = self._rng.choice([-self._usual_max, self._usual_max], len(tensor.data) // tensor.datatype.item_bytes)
        return _floats(tensor, signs)

    def _put_integer(self, tensor: Tensor, what: str) -> Tensor:
        if not tensor.datatype.is_integer or not tensor.data:
            return tensor
        values = array(tensor.datatype, tensor.data).copy()
        info = np.iinfo(values.dtype)
        value = {"-1": max(-1, int(info.min)), "the least integer": int(info.min)}.get(what, int(info.max))
        values[self._rng.integers(0, values.size)] = value
        return Tensor(tensor.name, tensor.datatype, tensor.shape, values.tobytes())

    def _call(self, name: str, inputs: Iterable[Tensor]) -> Iterator[RaceCall]:
        if (accepted := self._accepted(inputs)) is not None:
            yield RaceCall(name, accepted)

    def _accepted(self, inputs: Iterable[Tensor]) -> list[Tensor] | None:
        """Return the inputs; None if the contract does not take them, so that nobody can ask for them."""
        try:
            return self._contract.accept(inputs).tensors
        except ContractViolation:
            return None

    def _rows(self, batch: Batch, rows: int) -> dict[str, int]:
        return {**self._example_sizes, batch.symbol: rows}

    def _join(self, batch: Batch, pair: tuple[int, int]) -> JoinedRows | None:
        first, second = (self._inputs.draw(self._rows(batch, rows), number) for number, rows in enumerate(pair))
        # What has no rows is of the whole call.
        second = [other if other.name in batch.inputs else one for one, other in zip(first, second, strict=True)]
        together = self._inputs.tile(self._rows(batch, sum(pair)))
        if any(self._accepted(one) is None for one in (first, second, together)):
            return None
        return JoinedRows(f"{pair[0]} and {pair[1]} rows together", [first, second], batch)


def _pairs(batch: Batch) -> list[tuple[int, int]]:
    """Return numbers of rows of two requests, from few to many: even and odd ones."""
    totals = {2, 3, batch.up_to, *(batch.up_to >> shift for shift in range(1, batch.up_to.bit_length()))}
    return [(total - total // 2, total // 2) for total in sorted(totals) if 2 <= total <= batch.up_to]


def _fill(tensor: Tensor, value: float) -> Tensor:
    if not tensor.datatype.is_float:
        return tensor
    return _floats(tensor, np.full(len(tensor.data) // tensor.datatype.item_bytes, value))


def _fill_truth(tensor: Tensor, truth: bool) -> Tensor:
    if tensor.datatype is not Datatype.BOOL:
        return tensor
    return replace(tensor, data=bytes([truth]) * len(tensor.data))


def _fill_zeros(tensor: Tensor) -> Tensor:
    return replace(tensor, data=bytes(len(tensor.data))) if tensor.datatype.is_integer else tensor


def _floats(tensor: Tensor, values: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> Tensor:
    wide = Tensor(tensor.name, Datatype.FP64, tensor.shape, values.astype("<f8").tobytes())
    return cast(wide, tensor.datatype)
