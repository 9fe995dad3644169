"""An outcome: the result of one attempt at a trace request."""

from collections.abc import Callable, Iterable, Sequence
from typing import Self

from pydantic import Field, JsonValue

from service.domain.model import Bucket
from tracehouse.artifact.blob import BlobRef
from tracehouse.artifact.manifest import Artifact
from tracehouse.contract.contract import Contract
from tracehouse.errors import Failure
from tracehouse.findings.finding import Finding
from tracehouse.findings.verdict import Verdict, worst
from tracehouse.frozen import Frozen
from tracehouse.spec.model_name import ModelName
from tracehouse.spec.trace_spec import Promote, TraceSpec


class Succeeded(Frozen):
    """The model was traced on each device, once for each bucket, and its blobs are stored; the verdict says how well.

    `registered`: the artifacts become a version of the model. `promote`: whether that becomes the default version.
    `signatures`: what the service signed, by the digests of the artifacts; empty if it signs nothing.
    `refutes`: the digest of the artifact that a further check went on from, and of which it found a wrong answer.
    """

    artifacts: list[Artifact] = Field(min_length=1)
    name: ModelName
    registered: bool
    promote: Promote = "auto"
    refutes: str | None = None
    signatures: dict[str, str] = {}

    @classmethod
    def of(cls, spec: TraceSpec, artifacts: Sequence[Artifact]) -> Self:
        """Make the outcome. Rejected artifacts become a version only if the submitter accepts unsound ones."""
        sound = all(artifact.check.verdict is not Verdict.REJECTED for artifact in artifacts)
        registered = sound or spec.accept_unsound
        return cls(artifacts=list(artifacts), name=spec.model, registered=registered, promote=spec.promote)

    def signed(self, sign: Callable[[Artifact], str]) -> Self:
        """Return the outcome with a signature of each artifact."""
        return self.model_copy(update={"signatures": {one.digest: sign(one) for one in self.artifacts}})

    @property
    def verdict(self) -> Verdict:
        return worst(artifact.check.verdict for artifact in self.artifacts)

    @property
    def refuting(self) -> Artifact | None:
        """The artifact of a further check that refutes the one before; None if none does."""
        return next((one for one in self.artifacts if one.continues and one.continues == self.refutes), None)

    @property
    def by_device(self) -> dict[str, str]:
        """The digest of each device's artifact, or of its first bucket."""
        first: dict[str, str] = {}
        for artifact in self.artifacts:
            first.setdefault(artifact.device, artifact.digest)
        return first

    @property
    def contracts(self) -> dict[str, list[Contract]]:
        """The contracts of each device's artifacts."""
        found: dict[str, list[Contract]] = {}
        for artifact in self.artifacts:
            found.setdefault(artifact.device, []).append(artifact.contract)
        return found

    @property
    def buckets(self) -> list[Bucket]:
        return [
            Bucket(device=artifact.device, sizes=artifact.bucket, digest=artifact.digest)
            for artifact in self.artifacts
            if artifact.bucket
        ]

    @property
    def findings(self) -> list[Finding]:
        """All findings, each once. If some artifacts lack a finding, its evidence names the device and the bucket."""
        first = self.artifacts[0].check.findings
        common = [one for one in first if all(one in artifact.check.findings for artifact in self.artifacts)]
        return common + _merge_buckets(
            finding.model_copy(update={"evidence": {**finding.evidence, **_origin(artifact)}})
            for artifact in self.artifacts
            for finding in artifact.check.findings
            if finding not in common
        )


def _origin(artifact: Artifact) -> dict[str, JsonValue]:
    return {"device": artifact.device} | ({"bucket": dict(artifact.bucket)} if artifact.bucket else {})


def _merge_buckets(findings: Iterable[Finding]) -> list[Finding]:
    """Merge the findings of one kind at one line, which differ only in a bucket's sizes, into the first of them.

    Its evidence names the other buckets' sizes.
    """
    merged: dict[object, Finding] = {}
    for number, finding in enumerate(findings):
        evidence = finding.evidence
        key: object = number
        if "bucket" in evidence and finding.line is not None:
            key = finding.kind, finding.file, finding.line, str(evidence.get("method")), evidence["device"]
        if key not in merged:
            merged[key] = finding
            continue
        first = merged[key].evidence
        also = [*_list(first.get("also_in_buckets")), evidence["bucket"]]
        merged[key] = merged[key].model_copy(update={"evidence": {**first, "also_in_buckets": also}})
    return [*merged.values()]


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


class RanEagerly(Frozen):
    """The model ran in mode eager, and its outputs are stored. Nothing was traced, so there is no verdict."""

    outputs: BlobRef


class NotTraced(Frozen):
    """The model could not be traced, and is not tried again."""

    failure: Failure


Outcome = Succeeded | RanEagerly | NotTraced
