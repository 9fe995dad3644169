"""Examples: the request's calls, and what the eager model and the artifact answer on the examples among them."""

from dataclasses import dataclass, replace

from tracehouse.contract.contract import Contract, MethodContract
from tracehouse.contract.input_spec import InputSpec
from tracehouse.contract.output_spec import OutputSpec
from tracehouse.differential.bound_call import BoundCall
from tracehouse.differential.case_names import EXAMPLE
from tracehouse.differential.comparison import Answer
from tracehouse.differential.form_comparisons import FormComparisons
from tracehouse.errors import Failure, ModelUnrepeatable
from workers.processes.client import EagerAnswer
from workers.verification.model_processes import ModelProcesses


@dataclass(frozen=True)
class ExampleRuns:
    """The request's calls, and by method what both models answered on its example."""

    processes: ModelProcesses
    examples: dict[str, BoundCall]
    check_inputs: list[BoundCall]
    answers: dict[str, EagerAnswer]
    comparisons: dict[str, FormComparisons]
    artifact_answers: dict[str, Answer | str]

    def observed_contract(self) -> Contract:
        """Return the contract as the examples alone show it."""
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
            },
            without_fast_paths=self.processes.eager.without_fast_paths,
        )


def run_examples(processes: ModelProcesses) -> ExampleRuns:
    """Run both models on the examples. These are no secret, so the tracing child may still live. Raises TraceError."""
    calls, first_answers = processes.eager.calls(processes.spec)
    answers: dict[str, EagerAnswer] = {}
    for method, answer in first_answers.items():
        if isinstance(answer, Failure):
            raise ModelUnrepeatable(f"loaded again, it refuses its example: {answer.detail}", method=method)
        answers[method] = answer
    calls = [replace(call, returns=answers[call.method].answer.returns) for call in calls]
    examples = {call.method: call for call in calls if call.case == EXAMPLE}
    check_inputs = [call for call in calls if call.case != EXAMPLE]
    processes.wait()
    comparisons: dict[str, FormComparisons] = {}
    artifact_answers: dict[str, Answer | str] = {}
    for method, call in examples.items():
        processes.ask_artifact(call, call.inputs, seed=processes.spec.options.call_seed)
        by_form = processes.artifact_answers()
        artifact_answers[method] = by_form[0]
        comparisons[method] = processes.compare(
            answers[method], by_form, processes.float64_of(call, call.inputs, answers[method])
        )
    return ExampleRuns(processes, examples, check_inputs, answers, comparisons, artifact_answers)
