"""Trials: calls that both sides of a verification were asked on, and what came of each.

Whether one lies in the contract is said when all are done, for the contract is made of what they show.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tracehouse.differential import golden, out_of_memory
from tracehouse.differential.bound_call import BoundCall
from tracehouse.differential.comparison import Answer, compare
from tracehouse.differential.differential_run import DifferentialRun, DivergingAnswers, IntegerRanges
from tracehouse.differential.form_comparisons import FormComparisons
from tracehouse.errors import Failure
from tracehouse.tensors.tensor import Tensor, TensorSpec, array
from workers.processes.client import EagerAnswer
from workers.verification.examples import Prepared

# Drawn values can make a loop of the model's very long: eager is stopped where a call takes so long, or so many times
# the example's time. What takes milliseconds on its example is far off it after a second, on a busy machine too.
CALL_S = 1.0
CALL_TIMES_EXAMPLE = 20
# What differs is kept with both answers, for a counterexample, up to so many bytes of all together.
SHOWN_BYTES = 64 * 2**20


class DifferentialTester:
    """Asks both sides, one call after the other."""

    def __init__(self, prepared: Prepared) -> None:
        self._prepared = prepared
        self._sides = prepared.sides
        self._seed = prepared.sides.spec.options.seed
        self._kept: list[tuple[DifferentialRun, golden.Case]] = []
        self._left_shown_bytes = SHOWN_BYTES
        self.all: list[DifferentialRun] = []

    @property
    def tolerance(self) -> float:
        return self._sides.spec.check.check_tolerance

    def add(self, trial: DifferentialRun) -> DifferentialRun:
        self.all.append(trial)
        return trial

    def add_example(self, method: str) -> DifferentialRun:
        """What both gave on it before."""
        prepared = self._prepared
        call, eager, both = prepared.examples[method], prepared.answers[method], prepared.compared[method]
        return self.add(self._compared(call, call.case, call.inputs, eager, both, prepared.artifact_answers[method]))

    def ask(self, call: BoundCall, case: str, inputs: Sequence[Tensor], *, keep: bool = False) -> DifferentialRun:
        """Ask both at once, as in that call; what agrees may be `keep`t as a golden case."""
        self._sides.eager.ask(call, inputs, seed=self._seed, within_s=self.within_s(call.method))
        self._sides.ask_artifact(call, inputs)
        eager, answers = self._sides.eager.answer(), self._sides.artifact_answers()
        if isinstance(eager, Failure):
            answered = isinstance(answers[0], Answer)
            return self.add(
                DifferentialRun(call, case, _specs(inputs), _ranges(inputs), None, [], False, eager, answered)
            )
        if any(isinstance(one, str) and out_of_memory.reports_out_of_memory(one) for one in answers):
            # It has as much as the eager model, and needs a little more for the same: that is no answer.
            return self.add(DifferentialRun(call, case, _specs(inputs), _ranges(inputs), None, _of(eager), eager.drew))
        both = self._sides.compared(eager, answers)
        trial = self._compared(call, case, inputs, eager, both, answers[0])
        by_chance = trial.differs and trial.drew and not self._is_repeated(call, inputs, eager)
        self.add(trial := replace(trial, by_chance=by_chance))
        if keep and trial.agrees and not eager.drew:
            self._kept.append((trial, golden.Case(call.method, inputs, list(eager.answer.leaves.values()))))
        return trial

    def ask_artifact(self, call: BoundCall, inputs: Sequence[Tensor]) -> Answer | str:
        """What is served gives on it, or what it raises, whatever eager does."""
        self._sides.artifact.ask(call, inputs)
        return self._sides.artifact.answer()

    def golden(self, trials: Iterable[DifferentialRun]) -> list[golden.Case]:
        """Of those trials, the cases that were kept."""
        wanted = {id(trial) for trial in trials}
        return [case for trial, case in self._kept if id(trial) in wanted]

    def within_s(self, method: str) -> float:
        """How long eager may take for a call that is not its example."""
        return max(CALL_S, CALL_TIMES_EXAMPLE * self._prepared.answers[method].seconds)

    def _compared(
        self,
        call: BoundCall,
        case: str,
        inputs: Sequence[Tensor],
        eager: EagerAnswer,
        both: FormComparisons,
        artifact: Answer | str,
    ) -> DifferentialRun:
        shown = None
        # Of numbers that are drawn at random, no other call gives the same again.
        if not both.served.agrees and not eager.drew:
            shown = self._shown(DivergingAnswers(inputs, eager.answer, artifact))
        return DifferentialRun(call, case, _specs(inputs), _ranges(inputs), both, _of(eager), eager.drew, shown=shown)

    def _is_repeated(self, call: BoundCall, inputs: Sequence[Tensor], first: EagerAnswer) -> bool:
        """Whether eager answers the same with other random numbers."""
        self._sides.eager.ask(call, inputs, seed=self._seed + 1, within_s=self.within_s(call.method))
        again = self._sides.eager.answer()
        return not isinstance(again, Failure) and compare(first.answer, again.answer, 0.0).agrees

    def _shown(self, shown: DivergingAnswers) -> DivergingAnswers | None:
        if shown.byte_size > self._left_shown_bytes:
            return None
        self._left_shown_bytes -= shown.byte_size
        return shown


def _specs(inputs: Sequence[Tensor]) -> list[TensorSpec]:
    return [tensor.spec for tensor in inputs]


def _of(eager: EagerAnswer) -> list[TensorSpec]:
    return [leaf.spec for leaf in eager.answer.leaves.values()]


def _ranges(inputs: Sequence[Tensor]) -> IntegerRanges:
    integers = [(tensor.name, array(tensor.datatype, tensor.data)) for tensor in inputs if tensor.datatype.is_integer]
    return {name: (int(values.min()), int(values.max())) for name, values in integers if values.size}
