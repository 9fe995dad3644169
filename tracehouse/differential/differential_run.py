"""A trial: one call that the eager model and the artifact were both asked, and what came of it."""

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
    """Inputs on which the two differ, and what each gave; a text is what the artifact raised."""

    inputs: Sequence[Tensor]
    eager: Answer
    artifact: Answer | str

    @property
    def byte_size(self) -> int:
        answers = [one for one in (self.eager, self.artifact) if isinstance(one, Answer)]
        leaves = [leaf for answer in answers for leaf in answer.leaves.values()]
        return sum(len(tensor.data) for tensor in (*self.inputs, *leaves))


@dataclass(frozen=True)
class DifferentialRun:
    """One call of both. `compared` is None where the eager model refused, or nothing can be said.

    `ranges` has the smallest and the largest of each input of integers; `outputs` are eager's; `call` says how the
    inputs nest, and is another one than the example's for a check input alone. `by_chance` is a difference where eager
    differs from itself as well, with other random numbers.
    """

    call: BoundCall
    case: str
    inputs: list[TensorSpec]
    ranges: IntegerRanges
    compared: FormComparisons | None
    outputs: list[TensorSpec]
    drew: bool = False
    refusal: Failure | None = None
    answered: bool = False  # the artifact did, where the eager model refused
    shown: DivergingAnswers | None = None
    by_chance: bool = False

    @property
    def method(self) -> str:
        return self.call.method

    @property
    def agrees(self) -> bool:
        return self.compared is not None and self.compared.agrees

    @property
    def differs(self) -> bool:
        return self.compared is not None and not self.compared.agrees

    @property
    def differs_by_form(self) -> bool:
        """The archive as it was traced gives what eager gives, and what is served does not."""
        both = self.compared
        return both is not None and both.as_traced is not None and both.as_traced.agrees and not both.served.agrees

    @property
    def difference(self) -> Difference | None:
        return None if self.compared is None else self.compared.difference

    def is_as_in(self, call: BoundCall) -> bool:
        """Whether nothing but its tensors tells it from that call."""
        return self.call is call or same_arguments(call.arguments, self.call.arguments)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {spec.name: spec.shape for spec in self.inputs}
