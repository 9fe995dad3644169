"""Claims of further datatypes, verified: each combination is asked on inputs that are drawn here."""

from collections.abc import Iterable, Iterator, Sequence

from tracehouse.contract.contract import MethodContract
from tracehouse.differential.bound_call import BoundCall
from tracehouse.differential.datatype_combinations import Combination, find_accepted
from tracehouse.differential.size_samples import Sizes
from tracehouse.tensors.tensor import Datatype, Tensor, cast
from workers.verification.differential_runs import DifferentialTester
from workers.verification.sized_inputs import SizedInputs

# The most draws at a size, and how many of them are to be answered at the example's sizes and at others. Chosen.
_DRAWS, _ANSWERS_AT_EXAMPLE, _ANSWERS_ELSEWHERE = 3, 3, 1


def verify_datatypes(
    tester: DifferentialTester,
    call: BoundCall,
    contract: MethodContract,
    inputs: SizedInputs,
    others: Sequence[Sizes],
) -> dict[str, list[Datatype]]:
    """Return the datatypes of the claimed contract with which both models agree at the example's and at other sizes.

    They are by the inputs that may have several. The outputs must have the datatypes that the contract says. Inputs
    that the eager model refuses say nothing; at each size, some must be answered.
    Another width of integers gives the same numbers. So it is asked once at each size if all inputs that may have it
    do, and once in each other combination, at the smallest sizes.
    """
    example = contract.example_sizes or {}
    smallest = min((example, *others), key=inputs.byte_size)

    def choose_sizes(changed: Combination, combinations: Sequence[Combination]) -> list[tuple[Sizes, int]]:
        if any(one.is_float for one in changed.values()):
            return [(example, _ANSWERS_AT_EXAMPLE), *((sizes, _ANSWERS_ELSEWHERE) for sizes in others)]
        is_widest = len(changed) == max(map(len, combinations))
        return [(sizes, 1) for sizes in ((example, *others) if is_widest else (smallest,))]

    def hold(combinations: Sequence[Combination]) -> bool:
        return all(
            _agree(tester, call, contract, _draw(inputs, sizes, changed), enough)
            for changed in combinations
            for sizes, enough in choose_sizes(changed, combinations)
        )

    return find_accepted({spec.name: spec.datatypes for spec in contract.inputs if spec.datatypes}, hold)


def _agree(
    tester: DifferentialTester,
    call: BoundCall,
    contract: MethodContract,
    draws: Iterable[Sequence[Tensor]],
    enough: int,
) -> bool:
    """Whether both models agree on the draws until `enough` were answered, and at least one was."""
    answered = 0
    for drawn in draws:
        outputs = tester.compare_unrecorded(call, drawn)
        if outputs == "refused":
            continue
        if outputs == "differs" or {one.name: one.datatype for one in outputs} != contract.output_datatypes(drawn):
            return False
        answered += 1
        if answered == enough:
            break
    return answered > 0


def _draw(inputs: SizedInputs, sizes: Sizes, changed: Combination) -> Iterator[list[Tensor]]:
    for number in range(_DRAWS):
        yield [cast(one, changed.get(one.name, one.datatype)) for one in inputs.draw(sizes, number)]
