"""A comparison: one call of the eager model and of the artifact on the same inputs, and what differed."""

from collections import Counter
from collections.abc import Iterator, Sequence

from pydantic import Field

from tracehouse.differential.case_names import is_sample
from tracehouse.differential.comparison import ComparisonResult, Outcome
from tracehouse.frozen import Frozen


class Comparison(Frozen):
    """One call of the eager model and of the artifact on the same inputs.

    `case` names the inputs: "example", "check_inputs[0]", inputs that the check made ("probe: zeros", "size: ...",
    "counterexample: ..."), or inputs drawn after the artifact was made ("fresh 1", "fresh at batch 3"). A suffix says
    what else was compared: ", again" a second call after all others, ", as traced" the archive itself if another form
    of it is served, ", gradients" the gradients. `largest_difference` is the largest absolute difference over all
    output leaves, or null if they cannot be subtracted.
    """

    method: str
    case: str
    in_contract: bool = Field(description="Whether the contract takes these inputs. Elsewhere a difference restricts.")
    agrees: bool
    largest_difference: float | None = None
    difference: str | None = Field(None, description="The first output leaf that differs, and how.")
    outcome: Outcome | None = Field(
        None,
        description="`pass`: equal, or no farther apart than rounding makes them. `limited`: farther apart than the "
        "tolerance, while the eager model's own rounding is as large, so both are only that exact. `fail`: they "
        "differ. `inconclusive`: they differ by more than the tolerance, and in float64 the eager model takes another "
        "side of a threshold. Null in an artifact of an older version.",
    )
    condition: float | None = Field(
        None,
        ge=0,
        allow_inf_nan=False,
        description="Where the outcome is `limited`, or `fail` by rounding that is too large: how many roundings of "
        "the datatype the eager model's largest error is, against its answer in float64.",
    )


def comparison_of(method: str, case: str, compared: ComparisonResult, *, in_contract: bool) -> Comparison:
    """Return the result of comparing one call as an entry of the trace check."""
    difference = compared.difference
    return Comparison(
        method=method,
        case=case,
        in_contract=in_contract,
        agrees=compared.agrees,
        largest_difference=compared.largest,
        difference=f"{difference.leaf}: {difference.what}" if difference else None,
        outcome=compared.outcome,
        condition=compared.condition,
    )


def count_samples(comparisons: Sequence[Comparison]) -> int:
    """Return how many samples were compared."""
    return len({(one.method, one.case) for one in comparisons if is_sample(one.case)})


def inputs_sentence(samples: int) -> str:
    """Return on which inputs both models were compared, beside the example and the check inputs."""
    if not samples:
        return "Drawn inputs only: no samples of real inputs were given"
    return f"{samples} sample{'s' if samples > 1 else ''} of real inputs, and drawn inputs"


def outcome_lines(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Yield what a reader must know of comparisons that neither pass nor fail, if there are any."""
    outcomes = Counter(one.outcome for one in comparisons)
    if limited := outcomes[Outcome.LIMITED]:
        yield (
            f"{limited} of {len(comparisons)} comparisons agree only as far as the eager model itself is exact: in "
            "them its own rounding is larger than the tolerance"
        )
    if inconclusive := outcomes[Outcome.INCONCLUSIVE]:
        yield (
            f"{inconclusive} of {len(comparisons)} comparisons count as different, although nothing tells rounding "
            "from error there: in float64 the eager model falls on another side of a threshold"
        )
