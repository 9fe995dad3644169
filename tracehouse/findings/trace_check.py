"""The trace check: everything that was compared, what differed, by how much, and where in the source."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from tracehouse.contract.size_coverage import SizeCoverage
from tracehouse.findings.check_memory import CheckMemory
from tracehouse.findings.comparison import Comparison
from tracehouse.findings.coverage import sample_not_covered, sizes_not_covered
from tracehouse.findings.finding import Finding
from tracehouse.findings.verdict import Verdict, verdict_of, worst
from tracehouse.frozen import Frozen, with_new_names
from tracehouse.spec.trace_spec import BudgetName

# Raise it with every change after which the same model may get another verdict or contract, also between releases.
CHECK_VERSION = 17


class Layer(Frozen):
    """One layer of the check of one method: what it did, how long it took, and what it left out for lack of time.

    `seconds` are by the clock.
    """

    name: Literal["observe", "sizes", "prove", "graphs", "flip", "calls", "probe", "batch"]
    method: str
    seconds: float
    summary: str
    left_out: list[str] = []
    is_cut: bool = Field(
        False,
        description="Whether the time or another limit cut it. If not, what it left out could not be done in any time.",
    )
    budget_s: float | None = Field(
        None,
        description="The seconds that it took of the check's budget: of processor time or, if that is more, a quarter "
        "of those by the clock. Null in a check by an earlier release.",
    )
    budget_left_s: float | None = Field(
        None,
        ge=0,
        description="The seconds that were left of the whole check's budget when the layer ended. Null in a check by "
        "an earlier release.",
    )

    @model_validator(mode="before")
    @classmethod
    def _read_earlier_release(cls, document: Any) -> Any:
        """Read a layer of an earlier release: whether it was cut is not known, so that counts as cut."""
        if isinstance(document, dict) and "is_cut" not in document:
            document = {**document, "is_cut": bool(document.get("left_out"))}
        return with_new_names(document, {"did": "summary"})


def reads_value(kind: str) -> bool:
    """Whether a TracerWarning of this kind says that Python read a tensor's value, which the trace then keeps."""
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
    output: str | None = Field(None, description="The output's name in the contract.")
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
    constants: list[DifferingConstant] = Field(
        [], description="The first constant that differs: torch names no others."
    )
    nondeterministic: list[TracedNode] = Field(
        [], description="Where outputs differ: the nodes of the trace that may compute something else each time."
    )
    outputs: list[OutputDifference] = []
    not_compared: list[OutputRef] = Field(
        [], description="Outputs that it did not look at: those that nest, and those of methods that it did not reach."
    )
    warnings: list[TracerWarning] = []


class TraceCheck(Frozen):
    """The verdict, and what it rests on.

    `tolerance` is the relative tolerance of the comparisons in which the model's own rounding was not measured; golden
    cases are replayed with ten times as much. `budget_s` is the check's limit in seconds of processor time, and
    `budget` its name, if the request named it: what a name is in seconds follows from the model's first call.
    """

    verdict: Verdict
    tolerance: float = 1e-5
    comparisons: list[Comparison]
    findings: list[Finding]
    torch: TorchCheck
    layers: list[Layer] = []
    budget_s: float | None = None
    budget: BudgetName | None = None
    samples: int = Field(
        0,
        ge=0,
        description="How many samples of real inputs were compared. 0: drawn inputs only, beside the example and the "
        "check inputs.",
    )
    memory: CheckMemory | None = Field(
        None, description="What memory the check needs and may take. Null in a check by an earlier release."
    )
    coverage: list[SizeCoverage] = Field(
        [],
        description="If the request lists `sizes`: for each method, how many of them the contract accepts. With "
        "buckets, those of all buckets on the device together.",
    )

    def with_refused_samples(self, refused: Mapping[tuple[str, str], str]) -> Self:
        """Return the check, restricted if the contract refuses samples: by method and case, the reason."""
        return self.with_findings(
            [sample_not_covered(method, case, reason) for (method, case), reason in refused.items()]
        )

    def with_findings(self, findings: Sequence[Finding]) -> Self:
        """Return the check with these findings too, and the verdict that they lead to."""
        verdict = worst([self.verdict, verdict_of([], findings)])
        return self.model_copy(update={"findings": [*self.findings, *findings], "verdict": verdict})

    def with_coverage(self, coverage: Sequence[SizeCoverage]) -> Self:
        """Return the check with the coverage of the requested sizes. It restricts the artifact if a size is missing."""
        missing = [sizes_not_covered(one) for one in coverage if not one.is_complete]
        return self.model_copy(
            update={
                "coverage": [*coverage],
                "findings": [*self.findings, *missing],
                "verdict": worst([self.verdict, verdict_of([], missing)]),
            }
        )
