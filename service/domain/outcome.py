"""An outcome: what one attempt at a trace request came to."""

from collections.abc import Iterable, Sequence
from typing import Self

from pydantic import Field, JsonValue

from service.domain.model import Bucket
from tracehouse.artifact.blob import BlobRef
from tracehouse.artifact.manifest import Artifact
from tracehouse.errors import Failure
from tracehouse.findings.trace_check import Finding, Verdict, worst
from tracehouse.frozen import Frozen
from tracehouse.spec.model_name import ModelName
from tracehouse.spec.trace_spec import TraceSpec


class Succeeded(Frozen):
    """It was traced on each device, once for each of its buckets, and its blobs are stored; the verdict says how well.

    `registered` makes it a model's version.
    """

    artifacts: list[Artifact] = Field(min_length=1)
    name: ModelName
    registered: bool

    @classmethod
    def of(cls, spec: TraceSpec, artifacts: Sequence[Artifact]) -> Self:
        """A rejected artifact becomes part of a version only where the submitter accepts unsound ones."""
        sound = all(artifact.check.verdict is not Verdict.REJECTED for artifact in artifacts)
        return cls(artifacts=list(artifacts), name=spec.model, registered=sound or spec.accept_unsound)

    @property
    def verdict(self) -> Verdict:
        return worst(artifact.check.verdict for artifact in self.artifacts)

    @property
    def by_device(self) -> dict[str, str]:
        """The digest of each device's artifact: of the first of its buckets, where it has some."""
        first: dict[str, str] = {}
        for artifact in self.artifacts:
            first.setdefault(artifact.device, artifact.digest)
        return first

    @property
    def buckets(self) -> list[Bucket]:
        return [
            Bucket(device=artifact.device, sizes=artifact.bucket, digest=artifact.digest)
            for artifact in self.artifacts
            if artifact.bucket
        ]

    @property
    def findings(self) -> list[Finding]:
        """Each once; the evidence of one that not all artifacts show, or not alike, names the device and the bucket."""
        first = self.artifacts[0].check.findings
        common = [one for one in first if all(one in artifact.check.findings for artifact in self.artifacts)]
        return common + _one_for_all_buckets(
            finding.model_copy(update={"evidence": {**finding.evidence, **_which(artifact)}})
            for artifact in self.artifacts
            for finding in artifact.check.findings
            if finding not in common
        )


def _which(artifact: Artifact) -> dict[str, JsonValue]:
    return {"device": artifact.device} | ({"bucket": dict(artifact.bucket)} if artifact.bucket else {})


def _one_for_all_buckets(findings: Iterable[Finding]) -> list[Finding]:
    """Of those of one kind and one line, which buckets tell with their own sizes in them, the first: its evidence names
    the others' sizes."""
    shown: dict[object, Finding] = {}
    for number, finding in enumerate(findings):
        told = finding.evidence
        in_bucket = "bucket" in told and finding.line is not None
        of = (
            (finding.kind, finding.file, finding.line, str(told.get("method")), told["device"]) if in_bucket else number
        )
        if of not in shown:
            shown[of] = finding
            continue
        first = shown[of].evidence
        also = [*_list(first.get("also_in_buckets")), told["bucket"]]
        shown[of] = shown[of].model_copy(update={"evidence": {**first, "also_in_buckets": also}})
    return [*shown.values()]


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


class RanEagerly(Frozen):
    """It ran in mode eager, and what it returned is stored. Nothing was traced, so there is no verdict."""

    outputs: BlobRef


class NotTraced(Frozen):
    """It could not be traced, and is not tried again."""

    failure: Failure


Outcome = Succeeded | RanEagerly | NotTraced
