"""Claims: of what the tracing child says of other sizes and values than the example's, that which holds when it is
repeated apart from it, on inputs that are drawn here.

Eager refusing a size says nothing of it. A difference takes the whole region away in which it lies, and leaves the
sizes that came out right.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import prod

import numpy as np

from tracehouse.contract.contract import Batch, MethodClaim, MethodContract
from tracehouse.contract.dims import format_sizes, shape_at
from tracehouse.contract.input_spec import Reason, ValueRange
from tracehouse.contract.regions import REGIONS_MAX, Basis, Region
from tracehouse.differential import batch_rows, random_inputs, size_samples
from tracehouse.differential.bound_call import BoundCall
from tracehouse.differential.budget import Budget
from tracehouse.differential.comparison import Answer
from tracehouse.differential.differential_run import DifferentialRun
from tracehouse.differential.fixed_dims import collect_fixed_dims, fix_region, fix_shape
from tracehouse.differential.size_samples import Sizes
from tracehouse.findings import baked, coverage
from tracehouse.findings.trace_check import Finding
from tracehouse.tensors.tensor import Tensor, TensorSpec, array
from workers.verification.differential_runs import DifferentialTester

# Of a region that is proven, so many sizes at random beside its corners and borders; with probes "deep", more.
DRAWN, DRAWN_DEEP = 4, 24
# And of one that was tried size by size, no more than this.
EVERY_MOST = 512
# Inputs of another size have no more bytes than this, or than so many times the example's.
TRIAL_BYTES, TRIAL_TIMES_EXAMPLE = 2**20, 8
# What is tried whatever the budget stays near the example.
LEAST_TIMES_EXAMPLE = 2
WRONG_MAX = 256
# Of regions that are known so, the ends and some sizes inside stand for all; of others, each size stands for itself.
_RANGES: tuple[Basis, ...] = ("proven", "sampled")
# From one size to the next, so many times the bytes: what that takes can be told.
_STEP = 8
# Of the numbers of rows that a region has, so many are looked at for two that add up to a third.
_ROWS_TRIED = 16


@dataclass(frozen=True)
class VerifiedClaim:
    """What is left of a claim, what eager returned at which sizes, and what is to be said of the rest."""

    claim: MethodClaim
    answers: list[tuple[Sizes, list[TensorSpec]]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def repeated(
    trials: DifferentialTester,
    call: BoundCall,
    contract: MethodContract,
    claim: MethodClaim,
    budget: Budget,
    *,
    deep: bool,
) -> VerifiedClaim:
    """`contract` is the one that the claim would make of the example's."""
    rng = np.random.default_rng()
    return _Repeating(trials, call, contract, claim, budget, rng, DRAWN_DEEP if deep else DRAWN).held()


class _Repeating:
    """One method's claim, region by region."""

    def __init__(
        self,
        trials: DifferentialTester,
        call: BoundCall,
        contract: MethodContract,
        claim: MethodClaim,
        budget: Budget,
        rng: np.random.Generator,
        drawn: int,
    ) -> None:
        self._trials = trials
        self._call = call
        self._contract = contract
        self._claim = claim
        self._budget = budget
        self._rng = rng
        self._drawn = drawn
        self._example = contract.example_sizes or {}
        self._example_differs = any(one.call is call and one.case == call.case and one.differs for one in trials.all)
        self._bytes = sum(len(tensor.data) for tensor in call.inputs)
        self._most_bytes = max(TRIAL_BYTES, TRIAL_TIMES_EXAMPLE * self._bytes)
        self._asked: set[tuple[tuple[str, int], ...]] = set()
        self._pace: tuple[int, float] | None = None  # how many bytes took how long, the last time
        self._quickest_s = float("inf")  # most of which goes into asking, whatever the size
        self._within = {leaf: _ends(tensor, claim.values.get(leaf))
                        for tensor in call.inputs if tensor.datatype.is_integer
                        for leaf in [tensor.name] if len(tensor.data)}  # fmt: skip
        self._draws = 0
        self._findings: list[Finding] = []

    def held(self) -> VerifiedClaim:
        values = {leaf: ends for leaf, ends in self._claim.values.items() if self._range_holds(leaf, ends)}
        for region in self._claim.regions:
            self._try(region)
        tried = list(self._tried())
        regions = self._regions(tried)
        differing = [sizes for sizes, trial in tried if self._tells_of_sizes(trial) and sizes != self._example]
        wrong = size_samples.drop_duplicates([*self._claim.wrong, *differing])[:WRONG_MAX]
        batch = self._certified(self._claim.batch, regions) if self._claim.batch is not None else None
        claim = self._claim.model_copy(update={"values": values, "wrong": wrong, "batch": batch})
        claim = self._closed(claim, regions)
        answers = [(sizes, trial.outputs) for sizes, trial in tried if self._is_right(trial)]
        left_out = self._budget.left_out()
        if left_out:
            self._findings.append(coverage.sizes_left_out(self._call.method, left_out, self._budget.seconds))
        return VerifiedClaim(claim, answers, self._findings)

    def _tried(self) -> Iterator[tuple[Sizes, DifferentialRun]]:
        """All trials of the method whose inputs nest as the example's, and have its ranks; and their sizes."""
        for trial in self._trials.all:
            if trial.method == self._call.method and trial.is_as_in(self._call):
                sizes = self._contract.sizes_of(trial.inputs)
                if sizes is not None:
                    yield sizes, trial

    def _try(self, region: Region) -> None:
        """The smallest size and one drawn at random whatever the budget, the others within it."""
        if region.basis not in _RANGES:
            some = size_samples.list_sizes(region, EVERY_MOST)
            least, further = some[:1], some[1:]
        else:
            some = size_samples.sort_sizes(
                [*size_samples.corner_sizes(region), *size_samples.border_sizes(region, self._example)]
            )
            drawn = list(islice(size_samples.draw_sizes(region, self._rng), self._drawn))
            least, further = [some[0], drawn[0]], [*some[1:], *drawn[1:]]
        for place, point in enumerate([*least, *size_samples.sort_sizes(further)]):
            is_least = place < len(least)
            fitted = (self._near(point, region) if is_least else None) or self._fitted(point, region, self._most_bytes)
            if fitted is None:
                self._budget.leave_out(f"{format_sizes(point)}: its inputs would have over {self._most_bytes} bytes")
            elif self._key(fitted) in self._asked or fitted == self._example or not self._are_possible(fitted):
                continue
            elif not is_least and not self._is_reached(fitted, region):
                self._budget.leave_out(format_sizes(fitted))
            else:
                self._ask(fitted)

    def _ask(self, sizes: Sizes) -> None:
        self._asked.add(self._key(sizes))
        shapes = self._shapes(sizes)
        self._draws += 1
        began = time.monotonic()
        case = f"fresh at {format_sizes(sizes)}"
        inputs = random_inputs.draw_sized(self._call.inputs, shapes, self._draws, self._rng, self._within)
        if self._trials.ask(self._call, case, inputs, keep=True).compared is None:
            # What was drawn may be senseless to it.
            self._trials.ask(self._call, f"{case}, repeated", random_inputs.tile(self._call.inputs, shapes), keep=True)
        self._pace = self._bytes_of(sizes), time.monotonic() - began
        self._quickest_s = min(self._quickest_s, self._pace[1])

    def _regions(self, tried: Sequence[tuple[Sizes, DifferentialRun]]) -> list[Region]:
        """Those that hold, and beside them the very sizes that came out right."""
        held = [region for region in self._claim.regions if self._holds(region, tried)]
        wrong = [sizes for sizes, trial in tried if trial.differs or (trial.agrees and not self._is_right(trial))]
        right = [sizes for sizes, trial in tried if self._is_right(trial) and sizes not in wrong]
        alone = [sizes for sizes in size_samples.drop_duplicates(right)
                 if any(region.contains(sizes) for region in self._claim.regions)
                 and not any(region.contains(sizes) for region in held)]  # fmt: skip
        return [*held, *size_samples.tested_regions(alone)][:REGIONS_MAX]

    def _holds(self, region: Region, tried: Sequence[tuple[Sizes, DifferentialRun]]) -> bool:
        inside = [(sizes, trial) for sizes, trial in tried if region.contains(sizes) and sizes != self._example]
        for sizes, trial in inside:
            if (difference := trial.difference) is not None:
                if self._tells_of_sizes(trial) and not trial.differs_by_form:  # which says so itself
                    self._findings.append(
                        baked.size_of_region_kept(trial.method, trial.case, trial.inputs, difference, region, sizes)
                    )
                return False
            if trial.agrees and not self._is_right(trial):
                self._findings.append(coverage.outputs_vary(trial.method, trial.case, trial.outputs, region, sizes))
                return False
        if any(self._is_right(trial) for _, trial in inside):
            return region.basis in _RANGES
        if inside:
            self._findings.append(coverage.sizes_refused(self._call.method, region, inside[-1][1].refusal))
        return False

    def _tells_of_sizes(self, trial: DifferentialRun) -> bool:
        """Whether it is the size that makes it differ, and not chance, or what makes the example differ as well."""
        return trial.differs and not trial.by_chance and not self._example_differs

    def _is_right(self, trial: DifferentialRun) -> bool:
        """Whether both gave the same, and what the contract says of outputs is true of it, their sizes aside."""
        expected = {(spec.name, spec.datatype, len(spec.shape)) for spec in self._contract.outputs}
        return trial.agrees and {(spec.name, spec.datatype, len(spec.shape)) for spec in trial.outputs} == expected

    def _range_holds(self, leaf: str, ends: ValueRange) -> bool:
        """Whether eager takes its ends. Where the artifact answers otherwise then, the trial says so."""
        example = next(tensor for tensor in self._call.inputs if tensor.name == leaf)
        values = array(example.datatype, example.data)
        if not values.size:
            return True
        if not ends.contains(int(values.min()), int(values.max())):
            return False  # the example itself has others
        info = np.iinfo(values.dtype)
        for end in (ends.low, ends.high):
            if end is None or not info.min <= end <= info.max:
                continue
            inputs = [random_inputs.fill_with(one, end) if one is example else one for one in self._call.inputs]
            trial = self._trials.ask(self._call, f"fresh with {leaf!r} all {end}", inputs, keep=True)
            if trial.refusal is not None:
                self._findings.append(coverage.range_refused(self._call.method, leaf, end, trial.refusal))
                return False
        return True

    def _certified(self, batch: Batch, regions: Sequence[Region]) -> Batch | None:
        """Up to as many rows as were answered at once here."""
        if batch.symbol not in self._example:
            return None
        taken = self._rows(batch, regions)
        if not taken:
            self._findings.append(
                coverage.rows_depend(self._call.method, batch.symbol, "no two sizes of it add up to a third")
            )
            return None
        certified = 0
        for some, others in taken:
            if certified and self._budget.is_spent:
                self._budget.leave_out(f"{batch.symbol} {some + others}, together")
                continue
            if (what := self._seen(batch, some, others)) is not None:
                self._findings.append(coverage.rows_depend(self._call.method, batch.symbol, what))
                return None
            certified = max(certified, some + others)
        return batch.model_copy(update={"up_to": certified})

    def _rows(self, batch: Batch, regions: Sequence[Region]) -> list[tuple[int, int]]:
        """So many rows with so many others: the fewest there can be, and the most."""
        sizes = [
            size for region in regions for size in size_samples.smallest_sizes(region.spans[batch.symbol], _ROWS_TRIED)
        ]
        few = [size for size in sorted({*sizes}) if size and self._takes(batch.symbol, size, regions)]
        least = next(((one, other) for one in few for other in few if self._are_rows(batch, one, other, regions)), None)
        if least is None:
            return []
        most = next(
            ((total - one, one) for one in few[:3] for total in _halved(batch.up_to)
             if total > one and self._are_rows(batch, total - one, one, regions)),
            least,
        )  # fmt: skip
        return [least] if most == least else [least, most]

    def _are_rows(self, batch: Batch, some: int, others: int, regions: Sequence[Region]) -> bool:
        together = {**self._example, batch.symbol: some + others}
        return (
            some + others <= batch.up_to
            and all(self._takes(batch.symbol, size, regions) for size in (some, others, some + others))
            and self._bytes_of(together) <= self._most_bytes
        )

    def _takes(self, symbol: str, size: int, regions: Iterable[Region]) -> bool:
        return any(region.contains({**self._example, symbol: size}) for region in regions)

    def _seen(self, batch: Batch, some: int, others: int) -> str | None:
        """How rows of values that are drawn show in one another; or of the example's, where those are refused."""

        def ask(inputs: Sequence[Tensor]) -> Answer | str:
            return self._trials.ask_artifact(self._call, inputs)

        shapes = [self._shapes({**self._example, batch.symbol: rows}) for rows in (some, others)]
        first, second = (random_inputs.draw_sized(self._call.inputs, one, number, self._rng, self._within)
                         for number, one in enumerate(shapes))  # fmt: skip
        tiled = [random_inputs.tile(self._call.inputs, one) for one in shapes]
        for pair in ([first, _with_same_others(first, second, batch)], tiled):
            try:
                return batch_rows.find_row_dependence(ask, pair[0], pair[1], batch, self._trials.tolerance)
            except batch_rows.RowsRefused as error:
                refused = str(error)
        return f"they are refused: {refused}"

    def _closed(self, claim: MethodClaim, regions: Sequence[Region]) -> MethodClaim:
        """Without the symbols that have no other size left than the example's."""
        closed = {
            symbol: _reason(symbol, claim.wrong, self._example)
            for symbol, size in self._example.items()
            if all(size_samples.smallest_sizes(region.spans[symbol], 2) == [size] for region in regions)
        }
        is_closed = len(closed) == len(self._example)
        own = {symbol: self._example[symbol] for symbol in closed}
        left = [fix_region(region, closed) for region in regions]
        wrong = [
            {symbol: size for symbol, size in sizes.items() if symbol not in closed}
            for sizes in claim.wrong
            if own.items() <= sizes.items()
        ]
        return claim.model_copy(
            update={
                "shapes": {name: fix_shape(shape, own) for name, shape in claim.shapes.items()},
                "fixed": collect_fixed_dims(claim.shapes, claim.fixed, closed),
                "regions": [] if is_closed else [one for place, one in enumerate(left) if one not in left[:place]],
                "wrong": [] if is_closed else wrong,
                "batch": claim.batch if claim.batch is not None and claim.batch.symbol not in closed else None,
            }
        )

    def _near(self, point: Sizes, region: Region) -> dict[str, int] | None:
        return self._fitted(point, region, LEAST_TIMES_EXAMPLE * self._bytes)

    def _fitted(self, point: Sizes, region: Region, most_bytes: int) -> dict[str, int] | None:
        """The point, or one that is smaller, whose inputs have no more bytes than that."""
        fitted: dict[str, int] | None = dict(point)
        while fitted is not None and self._bytes_of(fitted) > most_bytes:
            fitted = size_samples.shrink_sizes(fitted, region)
        return fitted

    def _is_reached(self, sizes: Sizes, region: Region) -> bool:
        """Whether there is time for it. Where it is too far from what was asked last to be told, what lies between is
        asked first."""
        while not self._has_time_for(sizes):
            between = self._fitted(sizes, region, _STEP * self._pace[0]) if self._pace is not None else None
            if between is None or self._key(between) in self._asked or not self._are_possible(between):
                return False
            if not self._has_time_for(between):
                return False
            self._ask(between)
        return True

    def _has_time_for(self, sizes: Sizes) -> bool:
        if self._budget.is_spent or self._pace is None:
            return not self._budget.is_spent
        bytes_before, seconds = self._pace
        growth = max(1.0, self._bytes_of(sizes) / max(1, bytes_before))
        grown_s = (seconds - self._quickest_s) * growth**1.5  # between what grows linearly, and by the square
        return bool(self._quickest_s + grown_s <= self._budget.left_s)

    def _shapes(self, sizes: Sizes) -> dict[str, tuple[int, ...]]:
        return {spec.name: shape_at(spec.shape, sizes) for spec in self._contract.inputs}

    def _are_possible(self, sizes: Sizes) -> bool:
        """Whether no dim would be less than nothing."""
        return all(size >= 0 for shape in self._shapes(sizes).values() for size in shape)

    def _bytes_of(self, sizes: Sizes) -> int:
        shapes = self._shapes(sizes)
        return sum(prod(shapes[spec.name]) * spec.datatype.item_bytes for spec in self._contract.inputs)

    def _key(self, sizes: Sizes) -> tuple[tuple[str, int], ...]:
        return tuple(sorted(sizes.items()))


def _ends(tensor: Tensor, claimed: ValueRange | None) -> random_inputs.Ends:
    """Within which integers are drawn: what was seen, and the ends that are claimed."""
    values = array(tensor.datatype, tensor.data)
    low, high = int(values.min()), int(values.max())
    if claimed is None:
        return low, high
    info = np.iinfo(values.dtype)
    ends = [low if claimed.low is None else claimed.low, high if claimed.high is None else claimed.high]
    first, last = (min(max(end, int(info.min)), int(info.max)) for end in ends)
    return min(first, low), max(last, high)


def _with_same_others(first: Sequence[Tensor], second: Sequence[Tensor], batch: Batch) -> list[Tensor]:
    """The second inputs, but for those without rows: they are of the whole call."""
    return [other if other.name in batch.inputs else one for one, other in zip(first, second, strict=True)]


def _halved(size: int) -> Iterator[int]:
    while size > 1:
        yield size
        size //= 2


def _reason(symbol: str, wrong: Iterable[Sizes], example: Sizes) -> Reason:
    return "trace" if any(sizes[symbol] != example[symbol] for sizes in wrong) else "untried"
