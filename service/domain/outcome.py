"""An outcome: what one attempt at a trace request came to."""

from typing import Self

from service.domain.artifact import Artifact
from service.domain.errors import Failure
from service.domain.frozen import Frozen
from service.domain.model import ModelName
from service.domain.trace_check import TraceCheck, Verdict
from service.domain.trace_request import TraceSpec


class Succeeded(Frozen):
    """It was traced, and its blobs are stored. The verdict says how well; `registered` makes it a model's version."""

    artifact: Artifact
    name: ModelName
    registered: bool

    @classmethod
    def of(cls, spec: TraceSpec, artifact: Artifact) -> Self:
        """A rejected artifact becomes a version only where the submitter accepts unsound ones."""
        sound = artifact.check.verdict is not Verdict.REJECTED
        return cls(artifact=artifact, name=spec.model, registered=sound or spec.accept_unsound)

    @property
    def check(self) -> TraceCheck:
        return self.artifact.check


class NotTraced(Frozen):
    """It could not be traced, and is not tried again."""

    failure: Failure


Outcome = Succeeded | NotTraced
