"""The trace check: everything that was compared, what differed, by how much, and where in the source."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Literal

from pydantic import Field, JsonValue, model_validator

from tracehouse.findings.kinds import Weight, decides_alone
from tracehouse.frozen import Frozen, with_new_names


class Verdict(StrEnum):
    """verified: it agrees with the eager model wherever both were asked.
    restricted: it disagrees outside a boundary that the contract states and enforces.
    rejected: it disagrees in a way that no boundary on the inputs excludes.
    """

    VERIFIED = "verified"
    RESTRICTED = "restricted"
    REJECTED = "rejected"


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the worst of these verdicts. `Verdict` lists them from the best to the worst."""
    return max(verdicts, key=[*Verdict].index)


# Raise it with every change after which the same model may get another verdict or contract, between releases as well.
CHECK_VERSION = 1

# What a value read, or a line that the tracer warned of, does to the artifact.
Effect = Literal["harmless", "harmful", "unknown"]


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


class Finding(Frozen):
    """Something about the trace that a person must know: what, which line, how it is known, what to write instead."""

    kind: str = Field(description="Its stable name, such as `tracer-warning` or `output-differs`.")
    detail: str
    file: str | None = Field(None, description="The file, of the source or of a library that it uses.")
    line: int | None = None
    source: str | None = Field(None, description="The text of that line.")
    confirmed: bool | None = Field(None, description="True where inputs were found that show it; null where unknown.")
    evidence: dict[str, JsonValue] = Field({}, description="What shows it: the method, the output, what each gave.")
    remedy: str | None = Field(None, description="What to write instead.")
    effect: Effect | None = Field(
        None, description="Whether a TracerWarning, or another read of a value, makes the artifact wrong."
    )
    reason: str | None = Field(None, description="How the effect is known.")
    counterexample: int | None = Field(None, description="The artifact's counterexample that shows it, by its number.")


class Layer(Frozen):
    """One layer of the check of one method: what it did, how long it took, and what it left out for lack of time."""

    name: Literal["observe", "graphs", "flip", "prove", "probe", "batch"]
    method: str
    seconds: float
    summary: str
    left_out: list[str] = []

    @model_validator(mode="before")
    @classmethod
    def _read_old_name(cls, document: Any) -> Any:
        return with_new_names(document, {"did": "summary"})


def reads_value(kind: str) -> bool:
    """Whether a TracerWarning of that kind says that a tensor's value became Python's, which the trace then keeps."""
    return kind.startswith("tensor-to-") or kind == "iterating"


class TracerWarning(Frozen):
    """A TracerWarning, and the line that caused it."""

    method: str | None = Field(None, description="The method that torch was recording, or checking.")
    kind: str = Field(
        description="Its stable name, by what torch says: `tensor-to-python-boolean` and its like (`-integer`, "
        "`-float`, `-complex`, `-number`, `-index`, `-list`), `tensor-to-numpy`, `iterating`, `len`, "
        "`constant-registered`, `in-place`, `resized`, `container-output`, `output-differs`, "
        "`nondeterministic-nodes`, or `other`."
    )
    message: str
    file: str | None = Field(None, description="The file, of the source or of a library that it uses.")
    line: int | None = None
    source: str | None = Field(None, description="The text of that line.")


class TracedNode(Frozen):
    """A node of a recorded graph, and the line that made it."""

    operator: str
    text: str = Field(description="The node as torch prints it.")
    file: str | None = Field(None, description="The file, of the source or of a library that it uses.")
    line: int | None = None
    source: str | None = Field(None, description="The text of that line.")


class Divergence(Frozen):
    """The first nodes that differ between the graph of the trace and that of the check's own trace."""

    trace: TracedNode
    check: TracedNode


class DifferingConstant(Frozen):
    """A tensor that is a constant in the trace, and had another value in the check's own trace."""

    node: TracedNode
    difference: str = Field(description="What differed, as torch says it.")


class OutputDifference(Frozen):
    """A top-level output of the artifact that differs from that of the Python function, or of the check's own trace."""

    method: str | None = None
    number: int = Field(description="As torch counts the method's top-level tensors, from 1.")
    output: str | None = Field(None, description="The same output's name in the contract.")
    other: Literal["Python function", "repeated trace"] = Field(description="What it was compared with.")
    difference: str = Field(description="What differed, as torch says it.")


class OutputRef(Frozen):
    """An output leaf by its name in the contract."""

    method: str
    output: str


class TorchCheck(Frozen):
    """The result of torch's own check, as data and in its own words. It does not decide the verdict.

    torch traces once more on the examples, and on each check input that nests as they do, and compares the graphs,
    their constants, and the top-level outputs.
    """

    ran: bool
    passed: bool | None = Field(None, description="Null where it did not run, or could not be brought to its end.")
    error: str | None = Field(None, description="Why its result cannot be relied on.")
    message: str | None = Field(None, description="What it said, as text.")
    method: str | None = Field(None, description="The method whose trace it refused; those after it were not checked.")
    graph_diff: str | None = Field(None, description="How the two graphs differ, line by line as difflib.ndiff has it.")
    first_diverging: Divergence | None = None
    constants: list[DifferingConstant] = Field([], description="torch names the first.")
    nondeterministic: list[TracedNode] = Field(
        [], description="Where outputs differ: the nodes of the trace that may compute something else each time."
    )
    outputs: list[OutputDifference] = []
    not_compared: list[OutputRef] = Field(
        [], description="Outputs that it did not look at: those that nest, and those of methods that it did not reach."
    )
    warnings: list[TracerWarning] = []


class TraceCheck(Frozen):
    """The verdict, and what it rests on. `tolerance` is the relative tolerance of every comparison here, and of the
    replayed golden cases."""

    verdict: Verdict
    tolerance: float = 1e-5
    comparisons: list[Comparison]
    findings: list[Finding]
    torch: TorchCheck
    layers: list[Layer] = []
    budget_s: float | None = None


def verdict_of(comparisons: Iterable[Comparison], findings: Iterable[Finding]) -> Verdict:
    """Return the verdict that follows from all comparisons, and from the findings that weigh without one.

    A difference on inputs that the contract takes rejects the trace; one on other inputs restricts it.
    """
    kinds = {finding.kind for finding in findings}
    differing = [one for one in comparisons if not one.agrees]
    if any(one.in_contract for one in differing) or any(decides_alone(kind, Weight.REJECTS) for kind in kinds):
        return Verdict.REJECTED
    restricts = differing or any(decides_alone(kind, Weight.RESTRICTS) for kind in kinds)
    return Verdict.RESTRICTED if restricts else Verdict.VERIFIED
