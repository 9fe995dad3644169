"""Differential runs: the calls that were made of both models in a verification, and what came of each.

Whether a run lies in the contract is decided when all are done, for the contract is made of what they show.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from tracehouse.byte_units import MIB
from tracehouse.differential import golden, out_of_memory, random_inputs
from tracehouse.differential.bound_call import BoundCall
from tracehouse.differential.call_limits import CALL_LIMITS
from tracehouse.differential.case_names import EXAMPLE, name_for_ranks_of
from tracehouse.differential.comparison import Answer, Outcome, compare
from tracehouse.differential.differential_run import DifferentialRun, DivergingAnswers, IntegerRanges
from tracehouse.differential.form_comparisons import FormComparisons
from tracehouse.errors import Failure
from tracehouse.tensors.tensor import Tensor, TensorSpec, array
from workers.processes.client import EagerAnswer
from workers.verification.examples import ExampleRuns

# Answers that differ are recorded for counterexamples, up to so many bytes of all runs together.
DIVERGING_BYTES = 64 * MIB
# Rounding by which both differ on drawn inputs counts as an error if it does so on one of so many near them. Chosen.
_NEAR_DRAWS = 2


class DifferentialTester:
    """Asks the eager model and the artifact, one call after the other, and records each run."""

    def __init__(self, examples: ExampleRuns) -> None:
        self._examples = examples
        self._processes = examples.processes
        self._seed = examples.processes.spec.options.call_seed
        self._rng = np.random.default_rng(int.from_bytes(os.urandom(32)))
        self._golden_cases: list[tuple[DifferentialRun, golden.GoldenCase]] = []
        self._left_diverging_bytes = DIVERGING_BYTES
        self.runs: list[DifferentialRun] = []
        self.unrecorded_differences: list[DifferentialRun] = []  # of `compare_unrecorded`: no contract is made of them
        self.stochastic_methods: set[str] = set()  # those of which the artifact drew random numbers

    @property
    def tolerance(self) -> float:
        return self._processes.spec.check.tolerance

    def add(self, run: DifferentialRun) -> DifferentialRun:
        self.runs.append(run)
        return run

    def add_example(self, method: str) -> DifferentialRun:
        """Record the run of the example, which both models answered before."""
        examples = self._examples
        call, eager, artifact = examples.examples[method], examples.answers[method], examples.artifact_answers[method]
        comparisons = examples.comparisons[method]
        return self.add(self._run(call, call.case, call.inputs, eager, comparisons, artifact, self._seed))

    def ask(
        self, call: BoundCall, case: str, inputs: Sequence[Tensor], *, keep: bool = False, seed: int | None = None
    ) -> DifferentialRun:
        """Make the same call of both on other inputs, under the same seed: `seed`, or that of the request.

        With `keep`, the run may become a golden case if both agree.
        """
        seed = self._seed if seed is None else seed
        case = case if call.case in (EXAMPLE, case) else name_for_ranks_of(case, call.case)
        run, golden_case = self._ask(call, case, inputs, seed)
        if run.differs_by_rounding and case != call.case:
            run, golden_case = self._ask_near(call, case, inputs, seed) or (run, None)
        self.add(run)
        if keep and golden_case is not None:
            self._golden_cases.append((run, golden_case))
        return run

    def _ask_near(
        self, call: BoundCall, case: str, inputs: Sequence[Tensor], seed: int
    ) -> tuple[DifferentialRun, golden.GoldenCase | None] | None:
        """Make the call on inputs near these, and return a run that agrees; None if one differs, or eager refuses all.

        By luck eager's answer to the inputs may be exact. Then the artifact's is a difference beside it, and is none on
        other values.
        """
        near = (random_inputs.draw_near(inputs, self._rng) for _ in range(_NEAR_DRAWS))
        asked = [self._ask(call, case, one, seed) for one in near]
        if any(run.differs for run, _ in asked):
            return None
        return next((one for one in asked if one[0].agrees), None)

    def _ask(
        self, call: BoundCall, case: str, inputs: Sequence[Tensor], seed: int
    ) -> tuple[DifferentialRun, golden.GoldenCase | None]:
        """Make the same call of both, and return the run. If it agrees, it may become a golden case."""
        self._processes.eager.ask(call, inputs, seed=seed, within_s=self.limit_s(call.method))
        self._processes.ask_artifact(call, inputs, seed=seed)
        eager, answers = self._processes.eager.answer(), self._processes.artifact_answers()
        specs, ranges = _specs(inputs), _ranges(inputs)
        if isinstance(eager, Failure):
            answered = isinstance(answers[0], Answer)
            return DifferentialRun(call, case, specs, ranges, None, [], False, eager, answered), None
        if any(isinstance(one, str) and out_of_memory.reports_out_of_memory(one) for one in answers):
            # The artifact has as much memory as the eager model, and needs a little more for the same: that is no
            # answer.
            return DifferentialRun(call, case, specs, ranges, None, _output_specs(eager), eager.drew), None
        comparisons = self._processes.compare(eager, answers, self._processes.float64_of(call, inputs, eager))
        run = self._run(call, case, inputs, eager, comparisons, answers[0], seed)
        by_chance = run.differs and eager.drew_in_python and not self._repeats(call, inputs, eager)
        run = replace(run, by_chance=by_chance)
        # A golden case is replayed with the tolerance, within which two that agree with limits do not lie.
        is_limited = comparisons.served.outcome is Outcome.LIMITED
        is_golden = run.agrees and not eager.drew_in_python and not is_limited
        return run, make_golden_case(call.method, inputs, eager, seed) if is_golden else None

    def compare_unrecorded(
        self, call: BoundCall, inputs: Sequence[Tensor]
    ) -> list[TensorSpec] | Literal["refused", "differs"]:
        """Make the same call of both, and return eager's outputs if they agree. No run is recorded."""
        self._processes.eager.ask(call, inputs, seed=self._seed, within_s=self.limit_s(call.method))
        self._processes.ask_artifact(call, inputs, seed=self._seed)
        eager, answers = self._processes.eager.answer(), self._processes.artifact_answers()
        if isinstance(eager, Failure):
            return "refused"
        comparisons = self._processes.compare(eager, answers, self._processes.float64_of(call, inputs, eager))
        outputs = _output_specs(eager)
        if comparisons.agrees:
            return "differs" if eager.drew else outputs
        if not comparisons.differs_by_rounding and not eager.drew_in_python:
            case = "with " + ", ".join(f"{one.name!r} as {one.datatype.value}" for one in inputs)
            run = DifferentialRun(call, case, _specs(inputs), _ranges(inputs), comparisons, outputs, eager.drew)
            self.unrecorded_differences.append(run)
        return "differs"

    def ask_artifact(self, call: BoundCall, inputs: Sequence[Tensor]) -> Answer | str:
        """Return what the served form answers, or what it raises. The eager model is not asked."""
        self._processes.artifact.ask_alone(call, inputs, seed=self._seed)
        return self._processes.artifact.answer()

    def golden_cases(self, runs: Iterable[DifferentialRun]) -> list[golden.GoldenCase]:
        """Return the golden cases among these runs, in their order."""
        cases = {id(run): case for run, case in self._golden_cases}
        return [cases[id(run)] for run in runs if id(run) in cases]

    def example_s(self, method: str) -> float:
        """Return how long the eager model took for the method's example, by the clock."""
        return self._examples.answers[method].seconds

    def limit_s(self, method: str) -> float:
        """Return how long the eager model may take for a call that is not its example."""
        return CALL_LIMITS.resized.after(self.example_s(method))

    def _run(
        self,
        call: BoundCall,
        case: str,
        inputs: Sequence[Tensor],
        eager: EagerAnswer,
        comparisons: FormComparisons,
        artifact: Answer | str,
        seed: int,
    ) -> DifferentialRun:
        diverging = None
        if isinstance(artifact, Answer) and artifact.drew:
            self.stochastic_methods.add(call.method)
        # What Python draws is drawn for a trace too, under whatever seed, so such a run would be no counterexample.
        if not comparisons.served.agrees and not eager.drew_in_python:
            diverging = self._within_bytes(DivergingAnswers(inputs, eager.answer, artifact))
        specs, outputs = _specs(inputs), _output_specs(eager)
        return DifferentialRun(
            call, case, specs, _ranges(inputs), comparisons, outputs, eager.drew, diverging=diverging, seed=seed
        )

    def _repeats(self, call: BoundCall, inputs: Sequence[Tensor], first: EagerAnswer) -> bool:
        """Whether the eager model answers the same with other random numbers."""
        self._processes.eager.ask(call, inputs, seed=self._seed + 1, within_s=self.limit_s(call.method))
        again = self._processes.eager.answer()
        return not isinstance(again, Failure) and compare(first.answer, again.answer, 0.0).agrees

    def _within_bytes(self, diverging: DivergingAnswers) -> DivergingAnswers | None:
        if diverging.byte_size > self._left_diverging_bytes:
            return None
        self._left_diverging_bytes -= diverging.byte_size
        return diverging


def make_golden_case(method: str, inputs: Sequence[Tensor], eager: EagerAnswer, seed: int) -> golden.GoldenCase:
    """Return the call as a golden case, which keeps the seed if random numbers were drawn."""
    outputs = list(eager.answer.leaves.values())
    return golden.GoldenCase(method, inputs, outputs, seed if eager.drew else None)


def _specs(inputs: Sequence[Tensor]) -> list[TensorSpec]:
    return [tensor.spec for tensor in inputs]


def _output_specs(eager: EagerAnswer) -> list[TensorSpec]:
    return [leaf.spec for leaf in eager.answer.leaves.values()]


def _ranges(inputs: Sequence[Tensor]) -> IntegerRanges:
    integers = [(tensor.name, array(tensor.datatype, tensor.data)) for tensor in inputs if tensor.datatype.is_integer]
    return {name: (int(values.min()), int(values.max())) for name, values in integers if values.size}
