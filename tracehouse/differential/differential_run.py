"""A differential run: one call made of both the eager model and the artifact, and how their answers compare."""

from collections.abc import Sequence
from dataclasses import dataclass

from tracehouse.contract.structure import same_arguments
from tracehouse.differential.bound_call import BoundCall
from tracehouse.differential.comparison import Answer, Difference
from tracehouse.differential.form_comparisons import FormComparisons
from tracehouse.errors import Failure
from tracehouse.tensors.tensor import Tensor, TensorSpec

IntegerRanges = dict[str, tuple[int, int]]  # by the inputs' names: the smallest and the largest value


@dataclass(frozen=True)
class DivergingAnswers:
    """Inputs on which the eager model and the artifact differ, with both answers.

    If `artifact` is a text, the artifact raised, and the text says what.
    """

    inputs: Sequence[Tensor]
    eager: Answer
    artifact: Answer | str

    @property
    def byte_size(self) -> int:
        """The number of bytes of the inputs and both answers."""
        answers = [one for one in (self.eager, self.artifact) if isinstance(one, Answer)]
        leaves = [leaf for answer in answers for leaf in answer.leaves.values()]
        return sum(len(tensor.data) for tensor in (*self.inputs, *leaves))


@dataclass(frozen=True)
class DifferentialRun:
    """One call of both models. `comparisons` is None if the eager model refused the inputs, or nothing was found out.

    `call` says how the inputs nest; only those of a check input may nest otherwise than the example's. `ranges` has the
    smallest and the largest value of each integer input. `outputs` are the eager model's. `drew`: the eager model drew
    random numbers. `by_chance`: with other random numbers of Python or NumPy, it differs from itself too. `seed` seeded
    both models. `refusal` is what the eager
    model raised, and `artifact_answered` says whether the artifact answered nevertheless.
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
    seed: int | None = None

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
    def differs_by_rounding(self) -> bool:
        """Whether the answers differ by more rounding than eager has, and by no more."""
        return self.comparisons is not None and self.comparisons.differs_by_rounding

    @property
    def differs_by_form(self) -> bool:
        """Whether the archive as it was traced agrees with the eager model, and the form that is served differs."""
        forms = self.comparisons
        return forms is not None and forms.as_traced is not None and forms.as_traced.agrees and not forms.served.agrees

    @property
    def difference(self) -> Difference | None:
        return None if self.comparisons is None else self.comparisons.difference

    def nests_as(self, call: BoundCall) -> bool:
        """Whether this run has the arguments of that call, apart from the tensors in them."""
        return self.call is call or same_arguments(call.arguments, self.call.arguments)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The inputs' shapes by their names."""
        return {spec.name: spec.shape for spec in self.inputs}
