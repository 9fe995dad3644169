"""Prepared: the two sides of a verification, the request's calls, and what both give on the examples among them."""

from collections.abc import Sequence
from dataclasses import dataclass

from service.protocol.messages import EXAMPLE
from tracehouse.contract.contract import Contract, MethodContract
from tracehouse.contract.input_spec import InputSpec
from tracehouse.contract.output_spec import OutputSpec
from tracehouse.differential.bound_call import BoundCall
from tracehouse.differential.comparison import ANSWER_NAMES, Answer, ComparisonResult, Difference, compare
from tracehouse.differential.form_comparisons import FormComparisons
from tracehouse.errors import Failure, ModelUnrepeatable
from tracehouse.spec.trace_spec import TraceSpec
from tracehouse.tensors.tensor import Tensor
from workers.processes.artifact import ArtifactProcess
from workers.processes.client import EagerAnswer
from workers.processes.eager import EagerProcess


@dataclass(frozen=True)
class Sides:
    """The eager model and the artifact, each in a process that was started, and the request that they are of.

    `as_traced` is the artifact once more, where it is served in another form or gradients are compared.
    """

    spec: TraceSpec
    eager: EagerProcess
    artifact: ArtifactProcess
    as_traced: ArtifactProcess | None = None

    def wait(self) -> None:
        """Until the artifact is loaded. Raises ArchiveUnusable: of the form that is served where that one alone is."""
        for side in (self.as_traced, self.artifact):
            if side is not None:
                side.wait()

    def ask_artifact(self, call: BoundCall, inputs: Sequence[Tensor]) -> None:
        for side in self._asked():
            side.ask(call, inputs)

    def artifact_answers(self) -> list[Answer | str]:
        """In the order of `Both`."""
        return [side.answer() for side in self._asked()]

    def compared(self, eager: EagerAnswer, answers: Sequence[Answer | str]) -> FormComparisons:
        return FormComparisons(
            *(self._compared(eager, side, one) for side, one in zip(self._asked(), answers, strict=True))
        )

    def compared_example(self, call: BoundCall, eager: EagerAnswer) -> FormComparisons:
        """What the artifact gives on it now, against what eager gave."""
        self.ask_artifact(call, call.inputs)
        return self.compared(eager, self.artifact_answers())

    def _asked(self) -> list[ArtifactProcess]:
        as_traced = self.as_traced if self.spec.options.served_form is not None else None
        return [side for side in (self.artifact, as_traced) if side is not None]

    def _compared(self, eager: EagerAnswer, side: ArtifactProcess, answer: Answer | str) -> ComparisonResult:
        if isinstance(answer, str):
            return ComparisonResult(None, Difference("output", answer))
        return compare(eager.answer, answer, self.spec.check.check_tolerance, (ANSWER_NAMES[0], side.name))


@dataclass(frozen=True)
class Prepared:
    """The request's calls, and what both sides give on the examples among them, by their methods."""

    sides: Sides
    examples: dict[str, BoundCall]
    check_inputs: list[BoundCall]
    answers: dict[str, EagerAnswer]
    compared: dict[str, FormComparisons]
    artifact_answers: dict[str, Answer | str]

    def contract(self) -> Contract:
        """As the examples show it, and nothing else."""
        return Contract(
            methods={
                method: MethodContract(
                    arguments=call.arguments,
                    inputs=[InputSpec.from_example(spec) for spec in call.specs],
                    outputs=[
                        OutputSpec.from_example(tensor.spec) for tensor in self.answers[method].answer.leaves.values()
                    ],
                    returns=self.answers[method].answer.returns,
                )
                for method, call in self.examples.items()
            }
        )


def prepare(sides: Sides) -> Prepared:
    """Hear both sides on the examples: these are no secret, so nobody need be gone yet. Raises TraceError."""
    calls, answered = sides.eager.calls(sides.spec)
    examples = {call.method: call for call in calls if call.case == EXAMPLE}
    check_inputs = [call for call in calls if call.case != EXAMPLE]
    answers: dict[str, EagerAnswer] = {}
    for method, answer in answered.items():
        if isinstance(answer, Failure):
            raise ModelUnrepeatable(f"loaded again, it refuses its example: {answer.detail}", method=method)
        answers[method] = answer
    sides.wait()
    compared: dict[str, FormComparisons] = {}
    of_artifact: dict[str, Answer | str] = {}
    for method, call in examples.items():
        sides.ask_artifact(call, call.inputs)
        given = sides.artifact_answers()
        of_artifact[method] = given[0]
        compared[method] = sides.compared(answers[method], given)
    return Prepared(sides, examples, check_inputs, answers, compared, of_artifact)
