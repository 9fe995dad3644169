"""What a child cuts of what it says, and what its parent refuses because no honest child says it."""

from typing import Any

import pytest
from pydantic import ValidationError

from service.protocol.bounds import FACTS_MAX_BYTES, FINDINGS_MAX, cut_check, cut_failure
from service.protocol.messages import FailureReply
from service.protocol.tracer import from_tracer
from tracehouse.errors import Failure, ModelRaised
from tracehouse.findings.comparison import Comparison
from tracehouse.findings.finding import Finding
from tracehouse.findings.trace_check import (
    DifferingConstant,
    Divergence,
    OutputDifference,
    OutputRef,
    TorchCheck,
    TraceCheck,
    TracedNode,
    TracerWarning,
)
from tracehouse.findings.verdict import Verdict


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def check(*findings: Finding, comparisons: int = 1) -> TraceCheck:
    compared = Comparison(method="forward", case="example", in_contract=True, agrees=True)
    torch_check = TorchCheck(ran=True, passed=False, message="m" * 1_000_000)
    return TraceCheck(
        verdict=Verdict.REJECTED, comparisons=[compared] * comparisons, findings=[*findings], torch=torch_check
    )


DIFFERS = Finding(kind="output-differs", detail="d" * 100_000, line=3, evidence={"deep": nested(200), "eager": 1.5})
WARNED = Finding(kind="tracer-warning", detail="a shape became a number")

MANY = [
    {"message": "m" * 10_000_000},
    {"traceback": [{"file": "net.py", "line": 1, "source": "x" * 1_000_000}] * 20},
    {"missing": [f"layer.{number}.weight" for number in range(100_000)]},
    {"deep": nested(200)},
    {f"key {number}" * 1000: "value" for number in range(10_000)},
    {"line": 3, "exception": "ValueError"},
]


@pytest.mark.parametrize("facts", MANY, ids=[next(iter(facts))[:10] for facts in MANY])
def test_what_is_cut_is_within_the_bounds(facts: dict[str, Any]) -> None:
    cut = cut_failure(Failure(slug="model-raised", detail="d" * 1_000_000, facts=facts))

    assert cut_failure(cut) == cut
    assert Failure.model_validate_json(cut.model_dump_json()) == cut
    assert len(cut.model_dump_json()) < FACTS_MAX_BYTES + 10_000
    assert cut.facts


def test_what_is_short_is_told_whole() -> None:
    error = ModelRaised("it raised", line=3, traceback=[{"file": "net.py", "line": 3, "source": "raise"}], ratio=0.5)

    assert FailureReply.of(error).failure == error.failure()


def test_a_check_is_cut_and_what_rejects_it_stays() -> None:
    cut = cut_check(check(*[WARNED] * 20_000, DIFFERS, comparisons=10_000))

    assert cut_check(cut) == cut
    assert TraceCheck.model_validate_json(cut.model_dump_json()) == cut
    assert len(cut.findings) == FINDINGS_MAX
    assert (cut.findings[-1].kind, cut.findings[-1].line) == ("output-differs", 3)
    assert cut.findings[-1].evidence["eager"] == 1.5


def test_findings_that_are_large_together_are_cut_too() -> None:
    large = Finding(kind="output-differs", detail="d" * 4000, evidence={"index": list(range(1000))})

    assert len(cut_check(check(*[large] * 1000)).model_dump_json()) < 1_200_000


@pytest.mark.parametrize(
    "failure",
    [
        {"slug": "model-raised", "detail": "d" * 10_000},
        {"slug": "s" * 10_000, "detail": ""},
        {"slug": "model-raised", "detail": "", "facts": {"deep": nested(60)}},
        {"slug": "model-raised", "detail": "", "facts": {"deep": nested(200)}},
        {"slug": "model-raised", "detail": "", "facts": {"long": "y" * 100_000}},
    ],
    ids=["detail", "slug", "deep", "deeper", "long"],
)
def test_a_failure_over_the_bounds_is_refused(failure: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        from_tracer.validate_python({"kind": "failed", "failure": failure})


LONG = "l" * 1_000_000
NODE = TracedNode(operator=LONG, text=LONG, file=LONG, line=2**40, source=LONG)


def test_what_torchs_check_says_is_cut_and_its_first_items_stay() -> None:
    said = TorchCheck(
        ran=True,
        error=LONG,
        message=LONG,
        method=LONG,
        graph_diff=LONG,
        first_diverging=Divergence(trace=NODE, check=NODE),
        constants=[DifferingConstant(node=NODE, difference=LONG)] * 1000,
        nondeterministic=[NODE] * 1000,
        outputs=[OutputDifference(number=10**30, output=LONG, other="repeated trace", difference=LONG)] * 1000,
        not_compared=[OutputRef(method=LONG, output=LONG)] * 1000,
        warnings=[TracerWarning(kind=LONG, message=LONG, file=LONG, line=-1, source=LONG)] * 1000,
    )
    cut = cut_check(TraceCheck(verdict=Verdict.VERIFIED, comparisons=[], findings=[], torch=said))

    assert cut_check(cut) == cut
    assert TraceCheck.model_validate_json(cut.model_dump_json()) == cut
    assert len(cut.model_dump_json()) < 1_000_000
    assert all((cut.torch.constants, cut.torch.nondeterministic, cut.torch.outputs, cut.torch.warnings))


def test_what_torchs_check_says_in_few_words_is_told_whole() -> None:
    node = TracedNode(operator="aten::mul", text="%3 : Tensor = aten::mul(%x, %2)", file="net.py", line=3, source="x")
    said = TorchCheck(
        ran=True,
        passed=False,
        graph_diff="- a",
        first_diverging=Divergence(trace=node, check=node),
        constants=[DifferingConstant(node=node, difference="Scalars are not close!")],
        nondeterministic=[node],
        outputs=[OutputDifference(method="forward", number=1, other="Python function", difference="no")],
        not_compared=[OutputRef(method="forward", output="output.1.0")],
        warnings=[TracerWarning(method="forward", kind="len", message="Using len", file="net.py", line=3, source="x")],
    )
    check = TraceCheck(verdict=Verdict.VERIFIED, comparisons=[], findings=[], torch=said)

    assert cut_check(check) == check
