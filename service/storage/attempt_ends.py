"""How attempts end: the outcome, the artifacts and the model version are entered in a trace request's row."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, select, update

from service.domain.outcome import NotTraced, Outcome, RanEagerly, Succeeded
from service.domain.trace_request import DeviceArtifact, Stage, State
from service.storage import tables
from service.storage.artifacts import keep, lock_artifacts, withdraw_refuted
from service.storage.models import register, withdraw_from_versions
from service.storage.trace_request_rows import change_row, raised_revision, running_attempt
from service.storage.transactions import AnyRow
from tracehouse.errors import Failure
from tracehouse.findings.verdict_sentence import verdict_sentence

_request = tables.trace_requests.c
BACK_TO_QUEUED: dict[str, Any] = {
    "state": State.QUEUED.value,
    "stage": Stage.QUEUED.value,
    "progress": 0.0,
    "started_at": None,
}


def finish_attempt(connection: Connection, request_id: str, attempt: int, outcome: Outcome) -> AnyRow | None:
    """Enter the outcome, store its artifacts and return the row; None if the attempt is fenced."""
    # The fence comes first: if an attempt is ended twice, the second call waits here and then finds nothing to end.
    ended = _failure(outcome) if isinstance(outcome, NotTraced) else _success(outcome)
    row = change_row(connection, *running_attempt(request_id, attempt), **ended)
    if row is not None and isinstance(outcome, Succeeded):
        _store(connection, row.tenant, request_id, outcome)
    return row


def retry_attempt(
    connection: Connection, request_id: str, attempt: int, failure: Failure, attempts: int
) -> AnyRow | None:
    """Queue the request again, or fail it after `attempts`, and return the row; None if the attempt is fenced."""
    faults = connection.scalar(select(_request.faults).where(*running_attempt(request_id, attempt)))
    if faults is None:
        return None
    end = _failure(NotTraced(failure=failure)) if faults + 1 >= attempts else BACK_TO_QUEUED
    return change_row(connection, *running_attempt(request_id, attempt), faults=faults + 1, **end)


def _store(connection: Connection, tenant: str, request_id: str, outcome: Succeeded) -> None:
    """Store the artifacts, and register them if the outcome says so."""
    lock_artifacts(connection, tenant)
    for artifact in outcome.artifacts:
        keep(connection, tenant, artifact, outcome.signatures.get(artifact.digest))
    if outcome.refuting is not None:  # before a version is registered: a withdrawn default version does not count
        refuted = withdraw_refuted(connection, tenant, outcome.refuting, request_id)
        withdraw_from_versions(connection, tenant, refuted, request_id)
    if outcome.registered:
        version, promotion = register(connection, tenant, outcome, request_id)
        registered = {"model_name": outcome.name, "model_version": version, "promotion": promotion}
        connection.execute(update(tables.trace_requests).where(_request.id == request_id).values(registered))


def _success(outcome: Succeeded | RanEagerly) -> dict[str, Any]:
    ended = {
        "state": State.SUCCEEDED.value,
        "stage": Stage.DONE.value,
        "progress": 1.0,
        "ended_at": datetime.now(UTC),
        "revision": raised_revision(),
    }
    if isinstance(outcome, RanEagerly):
        size = outcome.outputs.byte_size
        return {**ended, "outputs": outcome.outputs, "stored_bytes": _request.stored_bytes + size}
    artifacts = [
        DeviceArtifact(
            device=one.device,
            digest=one.digest,
            bucket=one.bucket,
            continues=one.continues,
            verdict_sentence=verdict_sentence(one.check, one.contract),
        )
        for one in outcome.artifacts
    ]
    return {**ended, "verdict": outcome.verdict.value, "artifacts": artifacts, "findings": outcome.findings}


def _failure(outcome: NotTraced) -> dict[str, Any]:
    ended = {"state": State.FAILED.value, "failure": outcome.failure, "ended_at": datetime.now(UTC)}
    return {**ended, "revision": raised_revision()}
