"""An outcome: what one attempt at a trace request came to."""

from collections.abc import Sequence
from typing import Self

from pydantic import Field

from service.domain.artifact import Artifact
from service.domain.blob import BlobRef
from service.domain.errors import Failure
from service.domain.frozen import Frozen
from service.domain.model import ModelName
from service.domain.trace_check import Finding, Verdict, worst
from service.domain.trace_request import TraceSpec


class Succeeded(Frozen):
    """It was traced on each device, and its blobs are stored; the verdict says how well.

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
    def findings(self) -> list[Finding]:
        """Each once; the evidence of one that not all devices show, or not alike, names the device."""
        first = self.artifacts[0].check.findings
        common = [one for one in first if all(one in artifact.check.findings for artifact in self.artifacts)]
        return common + [
            finding.model_copy(update={"evidence": {**finding.evidence, "device": artifact.device}})
            for artifact in self.artifacts
            for finding in artifact.check.findings
            if finding not in common
        ]


class RanEagerly(Frozen):
    """It ran in mode eager, and what it returned is stored. Nothing was traced, so there is no verdict."""

    outputs: BlobRef


class NotTraced(Frozen):
    """It could not be traced, and is not tried again."""

    failure: Failure


Outcome = Succeeded | RanEagerly | NotTraced
