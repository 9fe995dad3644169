"""The processes of a verification: the eager model in one, the artifact in another."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from tracehouse.differential.bound_call import BoundCall
from tracehouse.differential.budget import Budget
from tracehouse.differential.call_limits import CALL_LIMITS
from tracehouse.differential.comparison import ANSWER_NAMES, Answer, ComparisonResult, Difference, compare
from tracehouse.differential.form_comparisons import FormComparisons
from tracehouse.differential.named_budgets import MOST_S
from tracehouse.differential.three_runs import AskFloat64, compare_three_runs
from tracehouse.errors import Failure
from tracehouse.spec.trace_spec import TraceSpec
from tracehouse.tensors.tensor import Tensor
from workers.processes.artifact import ArtifactProcess
from workers.processes.client import EagerAnswer
from workers.processes.eager import EagerProcess


@dataclass(frozen=True)
class ModelProcesses:
    """Processes that were started, and the spec of the request that they belong to.

    `as_traced` is a second process of the artifact, where it is served in another form or gradients are compared. A
    named budget is at most `budget_most_s` seconds.
    """

    spec: TraceSpec
    eager: EagerProcess
    artifact: ArtifactProcess
    as_traced: ArtifactProcess | None = None
    budget_most_s: float = MOST_S

    def wait(self) -> None:
        """Wait until the artifact is loaded. Raises ArchiveUnusable, which names the form if only that fails."""
        for process in (self.as_traced, self.artifact):
            if process is not None:
                process.wait()

    def budget(self, seconds: float) -> Budget:
        """Return a budget that counts the processor time of this thread and of the process that uses most."""
        return Budget(seconds, processor_s=self._processor_s)

    def ask_artifact(self, call: BoundCall, inputs: Sequence[Tensor], *, seed: int) -> None:
        for process in self._form_processes():
            process.ask(call, inputs, seed=seed)

    def artifact_answers(self) -> list[Answer | str]:
        """Return each form's answer, in the order of `FormComparisons`."""
        return [process.answer() for process in self._form_processes()]

    def compare(self, eager: EagerAnswer, answers: Sequence[Answer | str], ask_float64: AskFloat64) -> FormComparisons:
        """Compare each form's answer with eager's. `ask_float64` asks for eager's answer to the same in float64."""
        pairs = zip(self._form_processes(), answers, strict=True)
        return FormComparisons(*(self._compare(eager, process, answer, ask_float64) for process, answer in pairs))

    def float64_of(self, call: BoundCall, inputs: Sequence[Tensor], eager: EagerAnswer) -> AskFloat64:
        """Return what asks the eager model for the same call in float64, once, while it has nothing else to answer."""

        @cache
        def ask() -> Answer | str:
            within_s = CALL_LIMITS.float64.after(eager.seconds)
            self.eager.ask(call, inputs, seed=self.spec.options.call_seed, within_s=within_s, float64=True)
            answer = self.eager.answer()
            return answer.detail if isinstance(answer, Failure) else answer.answer

        return ask

    def _processor_s(self) -> float:
        processes = [self.eager, self.artifact, self.as_traced]
        return time.thread_time() + max(process.processor_s for process in processes if process is not None)

    def _form_processes(self) -> list[ArtifactProcess]:
        as_traced = self.as_traced if self.spec.options.served_form is not None else None
        return [process for process in (self.artifact, as_traced) if process is not None]

    def _compare(
        self, eager: EagerAnswer, process: ArtifactProcess, answer: Answer | str, ask_float64: AskFloat64
    ) -> ComparisonResult:
        if isinstance(answer, str):
            return ComparisonResult(None, Difference("output", answer))
        check, names = self.spec.check, (ANSWER_NAMES[0], process.name)
        if not check.measures_rounding or eager.drew or answer.drew:
            return compare(eager.answer, answer, check.tolerance, names)
        rebuilt = self.spec.options.served_form is not None and process is self.artifact
        return compare_three_runs(eager.answer, answer, ask_float64, check.tolerance, names, rebuilt=rebuilt)
