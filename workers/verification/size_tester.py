"""The size tester: calls the eager model and the artifact on inputs of other sizes, within a budget."""

import math
from collections.abc import Iterator
from itertools import islice

import numpy as np

from tracehouse.contract.dims import format_sizes
from tracehouse.contract.regions import Basis, Region
from tracehouse.differential import size_samples
from tracehouse.differential.bound_call import BoundCall
from tracehouse.differential.budget import Budget
from tracehouse.differential.case_names import name_random_inputs
from tracehouse.differential.differential_run import DifferentialRun
from tracehouse.differential.size_samples import Sizes
from tracehouse.tensors.tensor import Tensor
from workers.verification.differential_runs import DifferentialTester
from workers.verification.pace import Pace
from workers.verification.sized_inputs import SizedInputs

# Regions with one of these bases are tested at their corners and at some sizes inside; in other regions
# each size stands for itself.
RANGES: tuple[Basis, ...] = ("proven", "sampled")
# How many random sizes of a region are tested beside its corners, and its borders if it is only sampled; more with
# probes "deep".
DRAWN_SIZES, DRAWN_SIZES_DEEP = 4, 24
# How many sizes at most are tested in a region where each stands for itself.
LISTED_SIZES_MAX = 512
# A call at one of a range's sizes may take this part of the budget or, if that is more, this part of what the example's
# takes. Where it would take longer, smaller sizes stand in: otherwise the largest few would take all of the budget,
# and leave others and the batch out. Chosen.
CALL_SHARE, CALL_TIMES_EXAMPLE = 1 / 128, 1 / 2
# What is tested whatever the budget stays near the example.
LEAST_TIMES_EXAMPLE = 2


class SizeTester:
    """Tests the sizes of one method's claimed regions, each size once."""

    def __init__(
        self,
        tester: DifferentialTester,
        call: BoundCall,
        inputs: SizedInputs,
        example_sizes: Sizes,
        budget: Budget,
        rng: np.random.Generator,
        *,
        deep: bool,
    ) -> None:
        self._tester = tester
        self._call = call
        self._inputs = inputs
        self._example_sizes = example_sizes
        self._budget = budget
        self._rng = rng
        self._drawn_sizes = DRAWN_SIZES_DEEP if deep else DRAWN_SIZES
        self._example_bytes = sum(len(tensor.data) for tensor in call.inputs)
        self._tested: set[tuple[tuple[str, int], ...]] = set()
        self._pace = Pace(budget)
        self._call_s = max(CALL_SHARE * budget.seconds, CALL_TIMES_EXAMPLE * tester.example_s(call.method))
        self._draws = 0
        self.runs: list[DifferentialRun] = []  # on inputs that were drawn here

    @property
    def most_bytes(self) -> int:
        """The largest inputs that are drawn."""
        return size_samples.most_input_bytes(self._example_bytes)

    def test(self, region: Region) -> None:
        """Test the smallest size and a random one whatever the budget, and others while it lasts."""
        least, further = self._choose_sizes(region)
        for place, sizes in enumerate([*least, *size_samples.sort_sizes(further)]):
            is_least = place < len(least)
            near = self._fit(sizes, region, LEAST_TIMES_EXAMPLE * self._example_bytes) if is_least else None
            fitted = near or self._fit(sizes, region, self.most_bytes)
            if fitted is None:
                self._budget.leave_out(f"{format_sizes(sizes)}: its inputs would have over {self.most_bytes} bytes")
            elif not self._is_new(fitted) or fitted == self._example_sizes:
                continue
            elif is_least:
                self._ask(fitted)
            elif (timed := self._fit_time(fitted, region)) is None:
                self._budget.leave_out(format_sizes(fitted))
            else:
                self._ask(timed)

    def _choose_sizes(self, region: Region) -> tuple[list[dict[str, int]], list[dict[str, int]]]:
        """Return the sizes to test whatever the budget, and the further ones."""
        if region.basis not in RANGES:
            listed = size_samples.list_sizes(region, LISTED_SIZES_MAX)
            return listed[:1], listed[1:]
        is_proven = region.basis == "proven"
        corners = size_samples.corner_sizes(region, every=not is_proven)
        borders = [] if is_proven else size_samples.border_sizes(region, self._example_sizes)
        chosen = size_samples.sort_sizes([*corners, *borders])
        drawn = list(islice(size_samples.draw_sizes(region, self._rng), self._drawn_sizes))
        beyond = size_samples.beyond_sizes(region, self._example_sizes, self._rng)
        return [chosen[0], drawn[0]], [*chosen[1:], *drawn[1:], *beyond]

    def _ask(self, sizes: Sizes) -> None:
        self._tested.add(_key(sizes))
        self._draws += 1
        processor_s = self._budget.processor_s
        case = name_random_inputs(f"at {format_sizes(sizes)}")
        for name, inputs in self._draw(case, sizes):
            self.runs.append(self._tester.ask(self._call, name, inputs, keep=True))
            if self.runs[-1].comparisons is not None:
                break
        self._pace.record(self._inputs.byte_size(sizes), self._budget.processor_s - processor_s)

    def _draw(self, case: str, sizes: Sizes) -> Iterator[tuple[str, list[Tensor]]]:
        """Yield drawn inputs with the name of their case, and others in case the model makes no sense of them."""
        drawn = self._inputs.draw(sizes, self._draws)
        yield case, drawn
        if (patterned := self._inputs.keep_patterns(drawn)) != drawn:
            yield f"{case}, with the example's patterns", patterned
        if (tiled := self._inputs.tile(sizes)) != drawn:
            yield f"{case}, repeated", tiled

    def _fit(self, sizes: Sizes, region: Region, most_bytes: int) -> dict[str, int] | None:
        """Return the sizes, or smaller ones of the region, whose inputs have no more bytes than that."""
        fitted: dict[str, int] | None = dict(sizes)
        while fitted is not None and self._inputs.byte_size(fitted) > most_bytes:
            fitted = size_samples.shrink_sizes(fitted, region)
        return fitted

    def _fit_time(self, sizes: Sizes, region: Region) -> Sizes | None:
        """Return the sizes if there is time for them; of a range, else the largest smaller ones that are new."""
        if region.basis not in RANGES:
            return sizes if self._approach(sizes, region) else None
        fitted: Sizes | None = sizes
        while fitted is not None and not self._has_time_for(fitted, self._call_s):
            fitted = size_samples.shrink_sizes(fitted, region)
        return fitted if fitted is not None and self._is_new(fitted) else None

    def _approach(self, sizes: Sizes, region: Region) -> bool:
        """Whether there is time for these sizes. Smaller ones are tested first where the step is too large to tell."""
        while not self._has_time_for(sizes):
            reach_bytes = self._pace.reach_bytes
            between = self._fit(sizes, region, reach_bytes) if reach_bytes is not None else None
            if between is None or not self._is_new(between) or not self._has_time_for(between):
                return False
            self._ask(between)
        return True

    def _is_new(self, sizes: Sizes) -> bool:
        """Whether there are inputs of these sizes, and none were tested."""
        return _key(sizes) not in self._tested and self._inputs.are_possible(sizes)

    def _has_time_for(self, sizes: Sizes, within_s: float = math.inf) -> bool:
        return self._pace.has_time_for(self._inputs.byte_size(sizes), within_s)


def _key(sizes: Sizes) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(sizes.items()))
