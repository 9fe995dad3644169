"""A differential run: one call made of both the eager model and the artifact, and how their answers compare."""

from collections.abc import Sequence
from dataclasses import dataclass

from tracehouse.contract.structure import same_arguments
from tracehouse.differential.bound_call import BoundCall
from tracehouse.differential.comparison import Answer, Difference
from tracehouse.differential.form_comparisons import FormComparisons
from tracehouse.errors import Failure
from tracehouse.tensors.tensor import Tensor, TensorSpec

IntegerRanges = dict[str, tuple[int, int]]


@dataclass(frozen=True)
class DivergingAnswers:
    """Inputs on which eager model and artifact differ, with both answers. A text is what the artifact raised."""

    inputs: Sequence[Tensor]
    eager: Answer
    artifact: Answer | str

    @property
    def byte_size(self) -> int:
        """The bytes of the inputs and of both answers."""
        answers = [one for one in (self.eager, self.artifact) if isinstance(one, Answer)]
        leaves = [leaf for answer in answers for leaf in answer.leaves.values()]
        return sum(len(tensor.data) for tensor in (*self.inputs, *leaves))


@dataclass(frozen=True)
class DifferentialRun:
    """One call of both models. `comparisons` is None where the eager model refused, or nothing was found out.

    `call` says how the inputs nest: only a check input's may nest otherwise than the example's. `ranges` has the
    smallest and the largest integer of each integer input; `outputs` are the eager model's. `drew` says that the eager
    model drew random numbers, `by_chance` that it also differs from itself with other random numbers.
    `artifact_answered` says that the artifact answered where the eager model refused.
    """

    call: BoundCall
    case: str
    inputs: list[TensorSpec]
    ranges: IntegerRanges
    comparisons: FormComparisons | None
    outputs: list[TensorSpec]
    drew: bool = False
    refusal: Failure | None = None
    artifact_answered: bool = False
    diverging: DivergingAnswers | None = None
    by_chance: bool = False

    @property
    def method(self) -> str:
        return self.call.method

    @property
    def agrees(self) -> bool:
        return self.comparisons is not None and self.comparisons.agrees

    @property
    def differs(self) -> bool:
        return self.comparisons is not None and not self.comparisons.agrees

    @property
    def differs_by_form(self) -> bool:
        """Whether the archive agrees with the eager model as it was traced, and differs in the form that is served."""
        forms = self.comparisons
        return forms is not None and forms.as_traced is not None and forms.as_traced.agrees and not forms.served.agrees

    @property
    def difference(self) -> Difference | None:
        return None if self.comparisons is None else self.comparisons.difference

    def nests_as(self, call: BoundCall) -> bool:
        """Whether this run's arguments are that call's, apart from the tensors in them."""
        return self.call is call or same_arguments(call.arguments, self.call.arguments)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The inputs' shapes by their names."""
        return {spec.name: spec.shape for spec in self.inputs}
