"""Claims: what the tracing child says of other sizes and values than the example's, verified on inputs drawn here.

A size that the eager model refuses says nothing of a region. One difference removes the whole region in which it lies,
and leaves the sizes that came out right.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tracehouse.contract.contract import MethodClaim, MethodContract
from tracehouse.contract.input_spec import Reason, ValueRange
from tracehouse.contract.regions import REGIONS_MAX, Region
from tracehouse.differential import random_inputs, size_samples
from tracehouse.differential.bound_call import BoundCall
from tracehouse.differential.budget import Budget
from tracehouse.differential.case_names import name_random_inputs
from tracehouse.differential.differential_run import DifferentialRun
from tracehouse.differential.fixed_dims import collect_fixed_dims, fix_region, fix_shape
from tracehouse.differential.size_samples import Sizes
from tracehouse.findings import baked, coverage
from tracehouse.findings.finding import Finding
from tracehouse.step_times import step
from tracehouse.tensors.tensor import Datatype, TensorSpec, array
from workers.verification.batch_claim import BatchVerifier
from workers.verification.datatype_claim import verify_datatypes
from workers.verification.differential_runs import DifferentialTester
from workers.verification.size_tester import RANGES, SizeTester
from workers.verification.sized_inputs import SizedInputs

WRONG_MAX = 256


@dataclass(frozen=True)
class VerifiedClaim:
    """The part of a claim that held, eager's outputs at the sizes of its calls, and findings on the rest.

    `called` has the sizes at which both models agreed on inputs that were drawn here.
    """

    claim: MethodClaim
    answers: list[tuple[Sizes, list[TensorSpec]]] = field(default_factory=list)
    called: Sequence[Sizes] = ()
    findings: list[Finding] = field(default_factory=list)
    dependent_rows: int | None = None


def verify_claim(
    tester: DifferentialTester,
    call: BoundCall,
    contract: MethodContract,
    claim: MethodClaim,
    budget: Budget,
    *,
    deep: bool,
) -> VerifiedClaim:
    """Verify what is claimed of one method. `contract` is the example's with the whole claim."""
    return _ClaimVerifier(tester, call, contract, claim, budget, deep=deep).verify()


class _ClaimVerifier:
    """One method's claim, range by range and region by region."""

    def __init__(
        self,
        tester: DifferentialTester,
        call: BoundCall,
        contract: MethodContract,
        claim: MethodClaim,
        budget: Budget,
        *,
        deep: bool,
    ) -> None:
        self._tester = tester
        self._call = call
        self._contract = contract
        self._claim = claim
        self._budget = budget
        self._example_sizes = contract.example_sizes or {}
        self._example_differs = any(run.call is call and run.case == call.case and run.differs for run in tester.runs)
        rng = np.random.default_rng()
        inputs = SizedInputs(call, contract, claim.values, rng)
        self._inputs = inputs
        self._sizes = SizeTester(tester, call, inputs, self._example_sizes, budget, rng, deep=deep)
        self._batch = BatchVerifier(tester, call, inputs, self._example_sizes, budget, self._sizes.most_bytes)
        self._findings: list[Finding] = []

    def verify(self) -> VerifiedClaim:
        with step("verify: ranges of values"):
            values = {leaf: ends for leaf, ends in self._claim.values.items() if self._range_holds(leaf, ends)}
        with step("verify: sizes"):
            for region in self._claim.regions:
                self._sizes.test(region)
        runs = list(self._runs())
        regions = self._verified_regions(runs)
        differing = [sizes for sizes, run in runs if self._is_size_difference(run) and sizes != self._example_sizes]
        wrong = size_samples.drop_duplicates([*self._claim.wrong, *differing])[:WRONG_MAX]
        with step("verify: batch"):
            batch = self._batch.verify(self._claim.batch, regions) if self._claim.batch is not None else None
        with step("verify: datatypes"):
            datatypes = self._verified_datatypes(runs)
        changed = {"values": values, "wrong": wrong, "batch": batch, **datatypes}
        claim = self._claim.model_copy(update=changed)
        answers = [(sizes, run.outputs) for sizes, run in runs if self._is_right(run)]
        findings = [*self._findings, *self._batch.findings]
        if left_out := self._budget.left_out():
            findings.append(coverage.sizes_left_out(self._call.method, left_out, self._budget.seconds))
        fixed = _find_fixed(claim, regions, self._example_sizes)
        narrowed = _fix_symbols(claim, regions, fixed, self._example_sizes)
        drawn_here = {id(run) for run in self._sizes.runs}
        drawn = [sizes for sizes, run in runs if id(run) in drawn_here and self._is_right(run)]
        called = size_samples.drop_duplicates(_drop_fixed(drawn, {one: self._example_sizes[one] for one in fixed}))
        return VerifiedClaim(narrowed, answers, called, findings, self._batch.dependent_rows)

    def _runs(self) -> Iterator[tuple[Sizes, DifferentialRun]]:
        """Yield the method's runs whose inputs nest as the example's and have its ranks, with their sizes."""
        for run in self._tester.runs:
            if run.method == self._call.method and run.nests_as(self._call):
                sizes = self._contract.sizes_of(run.inputs)
                if sizes is not None:
                    yield sizes, run

    def _verified_regions(self, runs: Sequence[tuple[Sizes, DifferentialRun]]) -> list[Region]:
        """Return the regions that hold, and beside them the single sizes that came out right."""
        verified = [region for region in self._claim.regions if self._region_holds(region, runs)]
        wrong = [sizes for sizes, run in runs if run.differs or (run.agrees and not self._is_right(run))]
        right = [sizes for sizes, run in runs if self._is_right(run) and sizes not in wrong]
        alone = [sizes for sizes in size_samples.drop_duplicates(right)
                 if any(region.contains(sizes) for region in self._claim.regions)
                 and not any(region.contains(sizes) for region in verified)]  # fmt: skip
        return [*verified, *size_samples.tested_regions(alone)][:REGIONS_MAX]

    def _region_holds(self, region: Region, runs: Sequence[tuple[Sizes, DifferentialRun]]) -> bool:
        inside = [(sizes, run) for sizes, run in runs if region.contains(sizes) and sizes != self._example_sizes]
        for sizes, run in inside:
            if (difference := run.difference) is not None:
                if self._is_size_difference(run) and not run.differs_by_form:  # which has a finding of its own
                    self._findings.append(
                        baked.size_of_region_kept(run.method, run.case, run.inputs, difference, region, sizes)
                    )
                return False
            if run.agrees and not self._is_right(run):
                self._findings.append(coverage.outputs_vary(run.method, run.case, run.outputs, region, sizes))
                return False
        if any(self._is_right(run) for _, run in inside):
            return region.basis in RANGES
        if inside:
            self._findings.append(coverage.sizes_refused(self._call.method, region, inside[-1][1].refusal))
        return False

    def _verified_datatypes(self, runs: Sequence[tuple[Sizes, DifferentialRun]]) -> dict[str, dict[str, Any]]:
        """Return the claimed datatypes that hold at the example's sizes and at others that came out right.

        Beside them are the outputs that follow an input which may still have several.
        """
        kept: dict[str, list[Datatype]] = {}
        if not any(run.differs for _, run in runs):
            others = [sizes for sizes, run in runs if self._is_right(run) and sizes != self._example_sizes]
            telling = size_samples.choose_telling_points(others)
            kept = verify_datatypes(self._tester, self._call, self._contract, self._inputs, telling)
        followed = {output: name for output, name in self._claim.datatype_of.items() if name in kept}
        return {"datatypes": kept, "datatype_of": followed}

    def _is_size_difference(self, run: DifferentialRun) -> bool:
        """Whether the size makes it differ, and not chance, or what makes the example differ as well."""
        return run.differs and not run.by_chance and not self._example_differs

    def _is_right(self, run: DifferentialRun) -> bool:
        """Whether both models agree, on outputs with the names, datatypes and ranks of the contract."""
        datatypes = self._contract.output_datatypes(run.inputs)
        expected = {(spec.name, datatypes[spec.name], len(spec.shape)) for spec in self._contract.outputs}
        return run.agrees and {(spec.name, spec.datatype, len(spec.shape)) for spec in run.outputs} == expected

    def _range_holds(self, leaf: str, claimed: ValueRange) -> bool:
        """Whether eager accepts the bounds of the range. If the artifact differs there, the run records it."""
        example = next(tensor for tensor in self._call.inputs if tensor.name == leaf)
        values = array(example.datatype, example.data)
        if not values.size:
            return True
        if not claimed.contains(int(values.min()), int(values.max())):
            return False  # the example itself has others
        info = np.iinfo(values.dtype)
        for end in (claimed.low, claimed.high):
            if end is None or not info.min <= end <= info.max:
                continue
            inputs = [random_inputs.fill_with(one, end) if one is example else one for one in self._call.inputs]
            run = self._tester.ask(self._call, name_random_inputs(f"with {leaf!r} all {end}"), inputs, keep=True)
            if run.refusal is not None:
                self._findings.append(coverage.range_refused(self._call.method, leaf, end, run.refusal))
                return False
        return True


def _find_fixed(claim: MethodClaim, regions: Sequence[Region], example_sizes: Sizes) -> dict[str, Reason]:
    """Return the symbols that are left with no other size than the example's, and why."""
    return {
        symbol: _reason(symbol, claim.wrong, example_sizes)
        for symbol, size in example_sizes.items()
        if all(size_samples.smallest_sizes(region.spans[symbol], 2) == [size] for region in regions)
    }


def _fix_symbols(
    claim: MethodClaim, regions: Sequence[Region], fixed: Mapping[str, Reason], example_sizes: Sizes
) -> MethodClaim:
    """Replace the fixed symbols by the example's sizes."""
    all_fixed = len(fixed) == len(example_sizes)
    own = {symbol: example_sizes[symbol] for symbol in fixed}
    left = [fix_region(region, fixed) for region in regions]
    return claim.model_copy(
        update={
            "shapes": {name: fix_shape(shape, own) for name, shape in claim.shapes.items()},
            "fixed": collect_fixed_dims(claim.shapes, claim.fixed, fixed),
            "regions": [] if all_fixed else [one for place, one in enumerate(left) if one not in left[:place]],
            "wrong": [] if all_fixed else _drop_fixed(claim.wrong, own),
            "batch": claim.batch if claim.batch is not None and claim.batch.symbol not in fixed else None,
            "memory": claim.memory.at_fixed(own) if claim.memory is not None else None,
        }
    )


def _drop_fixed(points: Iterable[Sizes], own: Sizes) -> list[dict[str, int]]:
    """Return the points that have these sizes of the fixed symbols, without these symbols."""
    return [
        {symbol: size for symbol, size in sizes.items() if symbol not in own}
        for sizes in points
        if own.items() <= sizes.items()
    ]


def _reason(symbol: str, wrong: Iterable[Sizes], example_sizes: Sizes) -> Reason:
    return "trace" if any(sizes[symbol] != example_sizes[symbol] for sizes in wrong) else "untried"
