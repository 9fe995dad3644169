"""A further check, planned: the trace request that goes on with an artifact's check, if it can go on."""

from collections.abc import Callable

from pydantic import ValidationError

from service.domain.errors import (
    ArchiveWithoutModel,
    ArtifactWithdrawn,
    ConversionUnknown,
    EnvironmentNotFound,
    ReleaseTooOld,
    SubmissionGone,
)
from service.domain.trace_request import TraceRequest
from service.environments.environments import Environments
from service.storage.database import Store
from tracehouse.artifact.environment import EnvironmentRef
from tracehouse.errors import CallerError
from tracehouse.spec.trace_spec import CheckBudget

FindIdle = Callable[[str], TraceRequest | None]

_DEEP = CheckBudget(budget="deep")


class FurtherChecks:
    """Plans further checks of what is stored. `torch_version` is the one that they run with."""

    def __init__(self, store: Store, environments: Environments, torch_version: str) -> None:
        self._store = store
        self._environments = environments
        self._torch_version = torch_version

    def plan(self, tenant: str, digest: str, budget: CheckBudget, *, is_idle: bool = False) -> TraceRequest:
        """Return a new request, which is not stored yet.

        Raises ArtifactNotFound, ArtifactWithdrawn, ArchiveWithoutModel, ConversionUnknown and SubmissionGone.
        """
        artifact = self._store.artifacts.get(tenant, digest)
        withdrawn_by = self._store.artifacts.withdrawals(tenant, [digest]).get(digest)
        if withdrawn_by is not None:
            detail = "a later check refuted this artifact, so there is nothing to widen"
            raise ArtifactWithdrawn(detail, digest=digest, trace_request=withdrawn_by)
        if artifact.form == "uploaded":
            raise ArchiveWithoutModel("it was uploaded as an archive", digest=digest)
        if artifact.conversion is None:
            raise ConversionUnknown("how it was made is not known", digest=digest)
        made = self._store.further_checks.maker(tenant, digest)
        self._require_submission(made, digest)
        return made.going_on(digest, artifact.device, budget, torch_version=self._torch_version, is_idle=is_idle)

    def find_idle(self, pool: str) -> TraceRequest | None:
        """Return a deep check for an idle worker of the pool; None if no check that was cut can go on."""
        while (found := self._store.further_checks.next_idle(pool)) is not None:
            try:
                return self.plan(*found, _DEEP, is_idle=True)
            except ReleaseTooOld:  # a newer release has traced it again: its idle workers may go on
                return None
            except (CallerError, ValidationError):  # its submission is gone, or an earlier release stored it
                self._store.further_checks.leave_out(*found)
        return None

    def _require_submission(self, made: TraceRequest, digest: str) -> None:
        """Raise SubmissionGone unless the files and the environment are what they were."""
        missing = [name for name, blob in made.files.items() if not self._store.blobs.holds(blob.digest)]
        if missing:
            detail = f"files of its submission were deleted or are damaged: {', '.join(missing)}"
            raise SubmissionGone(detail, digest=digest, trace_request=made.id, files=missing)
        if made.environment is not None and self._present(made.environment.name) != made.environment:
            detail = f"environment {made.environment.name} is not what it was"
            raise SubmissionGone(
                detail, digest=digest, trace_request=made.id, environment=made.environment.name,
                remedy="submit the model again: it is then traced in the environment as it is now",
            )  # fmt: skip

    def _present(self, name: str) -> EnvironmentRef | None:
        try:
            return self._environments.find(name).ref
        except EnvironmentNotFound:
            return None
