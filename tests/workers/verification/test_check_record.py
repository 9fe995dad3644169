"""The check record: what the tracing child leaves out makes no verdict better."""

from tests.submissions import spec, tensor
from tracehouse.findings.trace_check import TorchCheck, TraceCheck
from tracehouse.findings.verdict import Verdict
from tracehouse.spec.trace_spec import TraceSpec
from workers.verification.check_record import CheckRecord

UPLOADED = {"model": "net", "source": {"archive": "net.pt"}, "example_inputs": [tensor([1.0])]}


def test_an_uploaded_archive_is_not_verified_though_the_child_finds_nothing() -> None:
    claimed = TraceCheck(verdict=Verdict.VERIFIED, comparisons=[], findings=[], torch=TorchCheck(ran=False))
    verdicts = [
        CheckRecord(TraceSpec.model_validate(one), claimed).check().verdict
        for one in (UPLOADED, spec("linear", example_inputs=[tensor([1.0])]))
    ]

    assert verdicts == [Verdict.SELF_CONSISTENT, Verdict.VERIFIED]
