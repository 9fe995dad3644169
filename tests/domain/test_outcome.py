"""An outcome of several devices: its verdict, its findings, and whether it becomes a version."""

import pytest

from service.domain.artifact import Artifact
from service.domain.outcome import Succeeded
from service.domain.trace_check import Finding, TorchCheck, TraceCheck, Verdict
from service.domain.trace_request import TraceSpec
from tests.conftest import make_artifact

SOURCE = {"files": {"net.py": ""}, "entrypoint": "net:Net"}
BRANCH = Finding(kind="tracer-warning", detail="a branch", line=3)
OTHER = Finding(kind="output-differs", detail="it differs by 1", evidence={"method": "forward"})


def on(device: str, verdict: Verdict = Verdict.VERIFIED, *findings: Finding) -> Artifact:
    check = TraceCheck(verdict=verdict, comparisons=[], findings=list(findings), torch=TorchCheck(ran=False))
    return make_artifact(device=device, check=check)


def outcome(*artifacts: Artifact, accept_unsound: bool = False) -> Succeeded:
    spec = {"model": "net", "source": SOURCE, "example_inputs": [1.0], "accept_unsound": accept_unsound}
    return Succeeded.of(TraceSpec.model_validate(spec), artifacts)


@pytest.mark.parametrize(
    ("cpu", "cuda", "worst"),
    [
        (Verdict.VERIFIED, Verdict.VERIFIED, Verdict.VERIFIED),
        (Verdict.RESTRICTED, Verdict.VERIFIED, Verdict.RESTRICTED),
        (Verdict.RESTRICTED, Verdict.REJECTED, Verdict.REJECTED),
    ],
)
def test_the_verdict_is_the_worst_of_the_devices(cpu: Verdict, cuda: Verdict, worst: Verdict) -> None:
    assert outcome(on("cpu", cpu), on("cuda", cuda)).verdict is worst


def test_one_rejected_device_keeps_the_whole_version_out_unless_that_is_accepted() -> None:
    artifacts = on("cpu"), on("cuda", Verdict.REJECTED)

    assert not outcome(*artifacts).registered
    assert outcome(*artifacts, accept_unsound=True).registered


def test_what_all_devices_show_is_told_once_and_what_one_shows_with_its_name() -> None:
    both = outcome(on("cpu", Verdict.VERIFIED, BRANCH), on("cuda", Verdict.REJECTED, OTHER, BRANCH))

    assert both.findings == [
        BRANCH,
        OTHER.model_copy(update={"evidence": {"method": "forward", "device": "cuda"}}),
    ]


def test_the_findings_of_a_single_device_are_as_its_check_has_them() -> None:
    assert outcome(on("cuda", Verdict.REJECTED, OTHER, BRANCH)).findings == [OTHER, BRANCH]
