"""An outcome of several devices: its verdict, its findings, and whether it becomes a version."""

import pytest

from service.domain.outcome import Succeeded
from tests.conftest import make_artifact
from tracehouse.artifact.manifest import Artifact
from tracehouse.findings.finding import Finding
from tracehouse.findings.trace_check import TorchCheck, TraceCheck
from tracehouse.findings.verdict import Verdict
from tracehouse.spec.trace_spec import TraceSpec

SOURCE = {"files": {"net.py": ""}, "entrypoint": "net:Net"}
BRANCH = Finding(kind="tracer-warning", detail="a branch", line=3)
OTHER = Finding(kind="output-differs", detail="it differs by 1", evidence={"method": "forward"})


def on(
    device: str, verdict: Verdict = Verdict.VERIFIED, *findings: Finding, bucket: dict[str, int] | None = None
) -> Artifact:
    check = TraceCheck(verdict=verdict, comparisons=[], findings=list(findings), torch=TorchCheck(ran=False))
    return make_artifact(device=device, check=check, bucket=bucket or {})


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


def test_a_self_consistent_artifact_becomes_a_version() -> None:
    assert outcome(on("cpu", Verdict.SELF_CONSISTENT)).registered


def test_what_all_devices_show_is_told_once_and_what_one_shows_with_its_name() -> None:
    both = outcome(on("cpu", Verdict.VERIFIED, BRANCH), on("cuda", Verdict.REJECTED, OTHER, BRANCH))

    assert both.findings == [
        BRANCH,
        OTHER.model_copy(update={"evidence": {"method": "forward", "device": "cuda"}}),
    ]


def test_the_findings_of_a_single_device_are_as_its_check_has_them() -> None:
    assert outcome(on("cuda", Verdict.REJECTED, OTHER, BRANCH)).findings == [OTHER, BRANCH]


def test_buckets_are_told_by_device_and_sizes() -> None:
    artifacts = [on(device, bucket={"seq": seq}) for device in ("cuda", "cpu") for seq in (16, 8)]

    both = outcome(*artifacts)

    assert list(both.by_device.items()) == [("cuda", artifacts[0].digest), ("cpu", artifacts[2].digest)]
    assert [(bucket.device, bucket.sizes, bucket.digest) for bucket in both.buckets] == [
        (artifact.device, artifact.bucket, artifact.digest) for artifact in artifacts
    ]


def test_an_artifact_alone_is_no_bucket() -> None:
    assert outcome(on("cpu")).buckets == []


def test_one_rejected_bucket_keeps_the_version_out() -> None:
    buckets = on("cpu", bucket={"seq": 8}), on("cpu", Verdict.REJECTED, OTHER, bucket={"seq": 16})

    assert outcome(*buckets).verdict is Verdict.REJECTED
    assert not outcome(*buckets).registered
    assert outcome(*buckets).findings[0].evidence == {"method": "forward", "device": "cpu", "bucket": {"seq": 16}}


def test_a_line_that_every_bucket_tells_of_in_its_own_words_is_told_once() -> None:
    sizes = [8, 16, 32]
    found = [Finding(kind="baked-size", detail=f"it keeps {size}", file="net.py", line=3) for size in sizes]
    buckets = [on("cpu", Verdict.VERIFIED, one, bucket={"seq": size}) for one, size in zip(found, sizes, strict=True)]

    [told] = outcome(*buckets).findings

    assert told.detail == "it keeps 8"
    assert told.evidence == {"device": "cpu", "bucket": {"seq": 8}, "also_in_buckets": [{"seq": 16}, {"seq": 32}]}
