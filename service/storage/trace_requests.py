"""Trace requests: the one truth about what was submitted and how far it has come.

Every change of state appends its event in the same transaction. An attempt that was claimed again, cancelled or ended
is fenced: what it still reports changes nothing. What is another tenant's is answered as what is not there.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AwareDatetime, Field
from sqlalchemy import ColumnElement, Connection, and_, exists, func, insert, or_, select, update

from service.domain.errors import QueueFull, TraceRequestEnded, TraceRequestNotFound
from service.domain.idempotency import Idempotency
from service.domain.outcome import NotTraced, Outcome, RanEagerly, Succeeded
from service.domain.quotas import NO_QUOTAS, Quotas
from service.domain.trace_request import (
    DeviceArtifact,
    ModelVersionRef,
    Stage,
    State,
    TraceRequest,
    TraceStatus,
)
from service.storage import tables
from service.storage.artifacts import keep
from service.storage.events import record_change
from service.storage.idempotency_keys import find_first_under, first_under, take_key
from service.storage.models import register
from service.storage.page import Cursor, Page
from service.storage.quotas import refuse_beyond_quotas
from service.storage.transactions import AnyRow, Transactions
from tracehouse.errors import Failure, TracerLost

_request = tables.trace_requests.c
_submission = tables.submissions.c
_PLAIN = [name for name in TraceStatus.model_fields if name != "model"]
# A list leaves out what each request's check found, which may be long.
_LISTED = (*(_request[name] for name in _PLAIN if name != "findings"), _request.model_name, _request.model_version)
_STATUS = (*(_request[name] for name in _PLAIN), _request.model_name, _request.model_version)
_CHANGED = tuple(
    _request[name] for name in ("id", "tenant", "events", "attempt", "state", "stage", "progress", "verdict")
)
_UNENDED = _request.state.in_([State.QUEUED.value, State.RUNNING.value])
_BACK_TO_QUEUED: dict[str, Any] = {
    "state": State.QUEUED.value,
    "stage": Stage.QUEUED.value,
    "progress": 0.0,
    "started_at": None,
}
# A forged cursor can hold no time or text that a database chokes on.
_Moment = Annotated[AwareDatetime, Field(gt=datetime(2000, 1, 1, tzinfo=UTC), lt=datetime(3000, 1, 1, tzinfo=UTC))]
_cursor = Cursor(tuple[_Moment, Annotated[str, Field(pattern="^[0-9a-z-]{1,64}$")]])


class TraceRequests:
    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def add(
        self,
        request: TraceRequest,
        idempotency: Idempotency | None = None,
        *,
        queue_max: int | None = None,
        quotas: Quotas = NO_QUOTAS,
    ) -> TraceRequest:
        """Keep a new request; returns the tenant's earlier one if the key was used for the same content.

        Without `force`, the same content is not traced twice: returns the newest that has succeeded or still may.
        Raises IdempotencyKeyReused, QueueFull if `queue_max` wait in its pool, and, beyond what its tenant may have,
        QueueQuotaExceeded and StorageQuotaExceeded.
        """
        with self._transactions.write() as connection:
            _one_at_a_time(connection, request)
            same = _same(connection, request)
            kept = same or request.id
            if idempotency is not None and not take_key(
                connection, request.tenant, idempotency, kept, request.created_at
            ):
                kept = first_under(connection, request.tenant, idempotency)
            elif same is None:
                _refuse_beyond(connection, request, queue_max, quotas)
                _insert(connection, request)
        return request if kept == request.id else self.get(request.tenant, kept)

    def refuse(
        self,
        request: TraceRequest,
        idempotency: Idempotency | None = None,
        *,
        queue_max: int | None = None,
        quotas: Quotas = NO_QUOTAS,
    ) -> None:
        """Raise what `add` would raise now. Others submit, too: `add` may raise it all the same."""
        with self._transactions.read() as connection:
            known = idempotency is not None and find_first_under(connection, request.tenant, idempotency) is not None
            if not known and _same(connection, request) is None:
                _refuse_beyond(connection, request, queue_max, quotas)

    def get(self, tenant: str, request_id: str) -> TraceRequest:
        """Raises TraceRequestNotFound."""
        with self._transactions.read() as connection:
            return _get(connection, request_id, _request.tenant == tenant)

    def status(self, tenant: str, request_id: str) -> TraceStatus:
        """Without what was submitted, which may be large. Raises TraceRequestNotFound."""
        with self._transactions.read() as connection:
            return _status(connection, request_id, _request.tenant == tenant)

    def status_of_any_tenant(self, request_id: str) -> TraceStatus:
        """The same for who works on it, and never for who asks about it."""
        with self._transactions.read() as connection:
            return _status(connection, request_id)

    def list(
        self, tenant: str, limit: int, after: str | None = None, *, state: State | None = None, model: str | None = None
    ) -> Page[TraceStatus]:
        """Newest first, and stable while others come, without findings. Raises InvalidCursor."""
        newest_first = _request.created_at.desc(), _request.id.desc()
        query = select(*_LISTED).where(_request.tenant == tenant).order_by(*newest_first).limit(limit + 1)
        if state is not None:
            query = query.where(_request.state == state.value)
        if model is not None:
            query = query.where(_request.model_name == model)
        if after is not None:
            created_at, request_id = _cursor.place(after)
            query = query.where(
                or_(
                    _request.created_at < created_at,
                    and_(_request.created_at == created_at, _request.id < request_id),
                )
            )
        with self._transactions.read() as connection:
            found = [TraceStatus.model_validate(_fields(row) | {"findings": []}) for row in connection.execute(query)]
        return _cursor.page(found, limit, lambda status: (status.created_at, status.id))

    def claim(self, request_id: str) -> TraceRequest | None:
        """Queued becomes running, as the next attempt; None for a request in any other state."""
        claimed = {
            "state": State.RUNNING.value,
            "stage": Stage.LOADING.value,
            "attempt": _request.attempt + 1,
            "started_at": datetime.now(UTC),
        }
        with self._transactions.write() as connection:
            row = _change(connection, _request.id == request_id, _request.state == State.QUEUED.value, **claimed)
        if row is None:
            return None
        # Read once that is done: a request that cannot be read has then used up an attempt, and ends after a few.
        with self._transactions.read() as connection:
            return _get(connection, request_id)

    def report(self, request_id: str, attempt: int, stage: Stage, progress: float) -> bool:
        """How far the attempt is; False if it is fenced."""
        with self._transactions.write() as connection:
            changed = _change(connection, *_running(request_id, attempt), stage=stage.value, progress=progress)
        return changed is not None

    def finish(self, request_id: str, attempt: int, outcome: Outcome) -> bool:
        """The attempt's end, with its artifacts and model version; False, and nothing is kept, if it is fenced.

        What was let in is kept, even where its tenant has since used up its quota, or does so by this.
        """
        with self._transactions.write() as connection:
            return _finish(connection, request_id, attempt, outcome)

    def release(self, request_id: str, attempt: int) -> bool:
        """Back to queued, and nobody's fault; False if the attempt is fenced."""
        with self._transactions.write() as connection:
            return _change(connection, *_running(request_id, attempt), **_BACK_TO_QUEUED) is not None

    def retry(self, request_id: str, attempt: int, failure: Failure, attempts: int) -> bool:
        """By a fault of ours back to queued, or failed if it is the last of `attempts`; False if fenced."""
        with self._transactions.write() as connection:
            return _retry(connection, request_id, attempt, failure, attempts)

    def cancel(self, tenant: str, request_id: str) -> TraceRequest:
        """Raises TraceRequestNotFound and TraceRequestEnded."""
        cancelled = {"state": State.CANCELLED.value, "ended_at": datetime.now(UTC)}
        its = _request.tenant == tenant
        with self._transactions.write() as connection:
            changed = _change(connection, _request.id == request_id, its, _UNENDED, **cancelled)
            request = _get(connection, request_id, its)
        if changed is None:
            raise TraceRequestEnded("the trace request has already ended", id=request_id, state=request.state.value)
        return request

    def recover(self, attempts: int) -> Sequence[TraceStatus]:
        """All that are queued, oldest first, and with them those that a lost process was running.

        Only for a process that is alone on the database, before it claims anything.
        """
        running = select(_request.id, _request.attempt).where(_request.state == State.RUNNING.value)
        queued = select(*_STATUS).where(_request.state == State.QUEUED.value).order_by(_request.created_at, _request.id)
        with self._transactions.write() as connection:
            for request_id, attempt in connection.execute(running).all():
                lost = TracerLost("the process that ran this was lost", attempts=attempts)
                _retry(connection, request_id, attempt, lost.failure(), attempts)
            return [TraceStatus.model_validate(_fields(row)) for row in connection.execute(queued)]


def _change(connection: Connection, *conditions: ColumnElement[bool], **values: Any) -> AnyRow | None:
    """Change the one row that meets the conditions, and tell its watchers; None if there is none."""
    changing = update(tables.trace_requests).where(*conditions).values(events=_request.events + 1, **values)
    row = connection.execute(changing.returning(*_CHANGED)).one_or_none()
    if row is not None:
        record_change(connection, row)
    return row


def _running(request_id: str, attempt: int) -> tuple[ColumnElement[bool], ...]:
    """The fence."""
    return _request.id == request_id, _request.attempt == attempt, _request.state == State.RUNNING.value


def _finish(connection: Connection, request_id: str, attempt: int, outcome: Outcome) -> bool:
    # The fence first: of two ends of one attempt, the later one waits here and then finds nothing to end.
    ended = _failure(outcome) if isinstance(outcome, NotTraced) else _success(outcome)
    row = _change(connection, *_running(request_id, attempt), **ended)
    if row is None:
        return False
    if isinstance(outcome, Succeeded):
        kept = _keep(connection, row.tenant, request_id, outcome)
        connection.execute(update(tables.trace_requests).where(_request.id == request_id).values(kept))
    return True


def _keep(connection: Connection, tenant: str, request_id: str, outcome: Succeeded) -> dict[str, Any]:
    """Keep the artifacts, and register them if that is to be; what this changes in the request's row."""
    new_bytes = sum(artifact.stored_bytes for artifact in outcome.artifacts if keep(connection, tenant, artifact))
    kept: dict[str, Any] = {"stored_bytes": _request.stored_bytes + new_bytes}
    if outcome.registered:
        version = register(connection, tenant, outcome, request_id)
        kept |= {"model_name": outcome.name, "model_version": version}
    return kept


def _success(outcome: Succeeded | RanEagerly) -> dict[str, Any]:
    ended = {
        "state": State.SUCCEEDED.value,
        "stage": Stage.DONE.value,
        "progress": 1.0,
        "ended_at": datetime.now(UTC),
    }
    if isinstance(outcome, RanEagerly):
        size = outcome.outputs.byte_size
        return {**ended, "outputs": outcome.outputs, "stored_bytes": _request.stored_bytes + size}
    artifacts = [DeviceArtifact(device=one.device, digest=one.digest, bucket=one.bucket) for one in outcome.artifacts]
    return {**ended, "verdict": outcome.verdict.value, "artifacts": artifacts, "findings": outcome.findings}


def _failure(outcome: NotTraced) -> dict[str, Any]:
    return {"state": State.FAILED.value, "failure": outcome.failure, "ended_at": datetime.now(UTC)}


def _retry(connection: Connection, request_id: str, attempt: int, failure: Failure, attempts: int) -> bool:
    faults = connection.scalar(select(_request.faults).where(*_running(request_id, attempt)))
    if faults is None:
        return False
    end = _failure(NotTraced(failure=failure)) if faults + 1 >= attempts else _BACK_TO_QUEUED
    return _change(connection, *_running(request_id, attempt), faults=faults + 1, **end) is not None


def _one_at_a_time(connection: Connection, request: TraceRequest) -> None:
    """Let no other submission of this content look for it until the transaction ends. SQLite's write lock does it."""
    if connection.dialect.name == "postgresql":
        content = f"{request.tenant} {request.content}"
        connection.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(content, 0))))


def _same(connection: Connection, request: TraceRequest) -> str | None:
    """The tenant's newest request of that content which has succeeded or still may; None for one with `force`.

    One whose model version was deleted since is not what a submitter of the same content asks for.
    """
    if request.spec.force:
        return None
    version = tables.model_versions.c
    version_is_there = exists().where(
        version.tenant == _request.tenant,
        version.name == _request.model_name,
        version.version == _request.model_version,
    )
    succeeded = and_(_request.state == State.SUCCEEDED.value, or_(_request.model_version.is_(None), version_is_there))
    query = (
        select(_request.id)
        .where(_request.tenant == request.tenant, _request.content == request.content, or_(_UNENDED, succeeded))
        .order_by(_request.created_at.desc(), _request.id.desc())
        .limit(1)
    )
    return connection.scalar(query)


def _refuse_beyond(connection: Connection, request: TraceRequest, queue_max: int | None, quotas: Quotas) -> None:
    """On PostgreSQL, submissions that come at the same time may go over by as many: it is a guard, not a promise."""
    refuse_beyond_quotas(connection, request, quotas)
    of_pool = _request.state == State.QUEUED.value, _request.pool == request.pool
    waiting = connection.execute(select(func.count()).where(*of_pool)).scalar_one()
    if queue_max is not None and waiting >= queue_max:
        raise QueueFull("too many trace requests are waiting", pool=request.pool, waiting=waiting, limit=queue_max)


def _status(connection: Connection, request_id: str, *conditions: ColumnElement[bool]) -> TraceStatus:
    row = connection.execute(select(*_STATUS).where(_request.id == request_id, *conditions)).one_or_none()
    if row is None:
        raise _not_found(request_id)
    return TraceStatus.model_validate(_fields(row))


def _get(connection: Connection, request_id: str, *conditions: ColumnElement[bool]) -> TraceRequest:
    query = (
        select(*_STATUS, _submission.spec, _submission.files)
        .join(tables.submissions, _submission.request_id == _request.id)
        .where(_request.id == request_id, *conditions)
    )
    row = connection.execute(query).one_or_none()
    if row is None:
        raise _not_found(request_id)
    return TraceRequest.model_validate({**_fields(row), "spec": row.spec, "files": row.files})


def _fields(row: AnyRow) -> dict[str, Any]:
    """A row's columns as the fields of a TraceStatus."""
    version = row.model_version
    model = None if version is None else ModelVersionRef(name=row.model_name, version=version)
    return {"model": model, **{name: row._mapping[name] for name in _PLAIN if name in row._mapping}}


def _insert(connection: Connection, request: TraceRequest) -> None:
    row = {name: getattr(request, name) for name in _PLAIN}
    row |= {"state": request.state.value, "stage": request.stage.value, "model_name": request.spec.model}
    row |= {"stored_bytes": request.submitted_bytes}
    adding = insert(tables.trace_requests).values(**row, faults=0, events=1).returning(*_CHANGED)
    added = connection.execute(adding).one()
    submission = {"request_id": request.id, "spec": request.spec, "files": request.files}
    connection.execute(insert(tables.submissions).values(submission))
    record_change(connection, added)


def _not_found(request_id: str) -> TraceRequestNotFound:
    return TraceRequestNotFound("there is no trace request with this id", id=request_id)
