"""Trace requests: the only truth about what was submitted and what became of it.

Every change of state appends its event in the same transaction. An attempt is fenced once its request was claimed
again, cancelled or ended: its reports then change nothing. Another tenant's requests are treated as not existing.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

from pydantic import Field
from sqlalchemy import Connection, and_, exists, func, not_, or_, select, update

import migrations
from service.domain.audit import SERVICE, Actor
from service.domain.errors import QueueFull, TraceRequestEnded
from service.domain.idempotency import Idempotency
from service.domain.outcome import NotTraced, Outcome
from service.domain.quotas import NO_QUOTAS, Quotas
from service.domain.trace_request import (
    Stage,
    State,
    TraceRequest,
    TraceStatus,
)
from service.storage import tables
from service.storage.allowances import Allowance, Allowances
from service.storage.attempt_ends import BACK_TO_QUEUED, finish_attempt, retry_attempt
from service.storage.audit import record
from service.storage.events import count_stored_bytes
from service.storage.further_checks import go_on_from
from service.storage.idempotency_keys import find_request_of_key, key_bytes, request_of_key, take_key
from service.storage.page import Cursor, Moment, Page
from service.storage.quotas import Room, check_quotas, check_room
from service.storage.removal import remove_request
from service.storage.trace_counts import AttemptEnd, TraceCounts
from service.storage.trace_request_rows import (
    LIST_COLUMNS,
    NOT_ENDED,
    STATUS_COLUMNS,
    change_row,
    find_request,
    find_source,
    find_status,
    has_artifact,
    insert_request,
    lock_content,
    request_of,
    running_attempt,
    source_of,
    status_of,
)
from service.storage.transactions import Transactions
from tracehouse.artifact.blob import BlobRef
from tracehouse.errors import Failure, TracerLost
from tracehouse.spec.trace_spec import ModelSource

_request = tables.trace_requests.c
_cursor = Cursor(tuple[Moment, Annotated[str, Field(pattern="^[0-9a-z-]{1,64}$")]])


class TraceRequests:
    """All trace requests. Submitters and readers use `add` to `list`; the engine and workers `claim` to `recover`."""

    def __init__(self, transactions: Transactions, allowances: Allowances) -> None:
        self._transactions = transactions
        self._allowances = allowances
        self.counts = TraceCounts()

    def add(
        self,
        request: TraceRequest,
        idempotency: Idempotency | None = None,
        *,
        queue_max: int | None = None,
        quotas: Quotas = NO_QUOTAS,
        allowance: Allowance | None = None,
        by: Actor = SERVICE,
    ) -> TraceStatus:
        """Store a new request; return the tenant's earlier one if the key was used for the same content.

        Without `force`, the same content is not traced twice: returns its newest request that has succeeded or still
        may. `allowance` is the one of the request's own files. Raises IdempotencyKeyReused, QueueFull if `queue_max`
        requests wait in its pool, QueueQuotaExceeded and StorageQuotaExceeded.
        """
        staged_bytes = self._allowances.taken_bytes(request.tenant, besides=allowance)
        request.stored  # noqa: B018 - written as text before the transaction, for which others wait
        with self._transactions.write() as connection:
            lock_content(connection, request.tenant, request.content)
            same = _find_same_content(connection, request)
            stored_id = same or request.id
            if idempotency is not None and not take_key(
                connection, request.tenant, idempotency, stored_id, request.created_at
            ):
                stored_id = request_of_key(connection, request.tenant, idempotency)
            elif same is None:
                _check_room(connection, request, queue_max, quotas, staged_bytes)
                insert_request(connection, request)
                count_stored_bytes(connection, request.id, key_bytes(idempotency))
                room, model = Room(quotas, staged_bytes), request.spec.model
                record(connection, by, request.tenant, "trace.submit", request.id, room=room, model=model)
                if request.continues is not None:
                    go_on_from(connection, request.tenant, request.continues)
            elif idempotency is not None:
                check_room(connection, request.tenant, key_bytes(idempotency), quotas, staged_bytes)
                count_stored_bytes(connection, same, key_bytes(idempotency))
            # Within the transaction: later, somebody may have deleted it.
            row = None if stored_id == request.id else find_status(connection, stored_id)
        return request.model_copy(update={"revision": migrations.HEAD}) if row is None else status_of(row)

    def refuse(
        self,
        request: TraceRequest,
        idempotency: Idempotency | None = None,
        *,
        queue_max: int | None = None,
        quotas: Quotas = NO_QUOTAS,
        allowance: Allowance | None = None,
    ) -> None:
        """Raise what `add` would raise now. `add` may still raise it, for others submit meanwhile."""
        staged_bytes = self._allowances.taken_bytes(request.tenant, besides=allowance)
        with self._transactions.read() as connection:
            if idempotency is not None and find_request_of_key(connection, request.tenant, idempotency) is not None:
                return
            if _find_same_content(connection, request) is None:
                _check_room(connection, request, queue_max, quotas, staged_bytes)
            elif idempotency is not None:
                check_room(connection, request.tenant, key_bytes(idempotency), quotas, staged_bytes)

    def get(self, tenant: str, request_id: str) -> TraceRequest:
        """Return a request with what was submitted. Raises TraceRequestNotFound."""
        with self._transactions.read() as connection:
            row = find_request(connection, request_id, _request.tenant == tenant)
        return request_of(row)

    def source(self, tenant: str, request_id: str) -> tuple[ModelSource, dict[str, BlobRef]]:
        """Return the source that was submitted, and the uploaded files. Raises TraceRequestNotFound."""
        with self._transactions.read() as connection:
            row = find_source(connection, request_id, _request.tenant == tenant)
        return source_of(row)

    def status(self, tenant: str, request_id: str) -> TraceStatus:
        """Return a request without what was submitted, which may be large. Raises TraceRequestNotFound."""
        with self._transactions.read() as connection:
            row = find_status(connection, request_id, _request.tenant == tenant)
        return status_of(row)

    def status_of_any_tenant(self, request_id: str) -> TraceStatus:
        """Return a request's status to an engine or worker, never to a caller. Raises TraceRequestNotFound."""
        with self._transactions.read() as connection:
            row = find_status(connection, request_id)
        return status_of(row)

    def list(
        self,
        tenant: str,
        limit: int,
        after: str | None = None,
        *,
        state: State | None = None,
        model: str | None = None,
        search: str | None = None,
    ) -> Page[TraceStatus]:
        """Return a page, newest first, without findings; new requests do not shift it. Raises InvalidCursor.

        `search` is a part of the model's name.
        """
        newest_first = _request.created_at.desc(), _request.id.desc()
        query = select(*LIST_COLUMNS).where(_request.tenant == tenant).order_by(*newest_first).limit(limit + 1)
        if state is not None:
            query = query.where(_request.state == state.value)
        if model is not None:
            query = query.where(_request.model_name == model)
        if search is not None:
            query = query.where(_request.model_name.contains(search, autoescape=True))
        if after is not None:
            created_at, request_id = _cursor.place(after)
            query = query.where(
                or_(
                    _request.created_at < created_at,
                    and_(_request.created_at == created_at, _request.id < request_id),
                )
            )
        with self._transactions.read() as connection:
            rows = connection.execute(query).all()
        return _cursor.page([status_of(row) for row in rows], limit, lambda status: (status.created_at, status.id))

    def claim(self, request_id: str) -> TraceRequest | None:
        """Make a queued request running, as its next attempt; None if it is not queued."""
        claimed = {
            "state": State.RUNNING.value,
            "stage": Stage.LOADING.value,
            "attempt": _request.attempt + 1,
            "started_at": datetime.now(UTC),
        }
        with self._transactions.write() as connection:
            row = change_row(connection, _request.id == request_id, _request.state == State.QUEUED.value, **claimed)
        if row is None:
            return None
        self.counts.count_claim(row)
        # Read in a second transaction: a request that cannot be read then uses up an attempt, and ends after a few.
        with self._transactions.read() as connection:
            row = find_request(connection, request_id)
        return request_of(row)

    def report(self, request_id: str, attempt: int, stage: Stage, progress: float) -> bool:
        """Record the stage and progress of an attempt; False if it is fenced."""
        with self._transactions.write() as connection:
            changed = change_row(
                connection, *running_attempt(request_id, attempt), stage=stage.value, progress=progress
            )
        return changed is not None

    def finish(self, request_id: str, attempt: int, outcome: Outcome) -> bool:
        """End an attempt and store its artifacts and model version; False if it is fenced: then nothing is stored.

        The result of a request that was accepted is stored even if the tenant's quota is used up.
        """
        with self._transactions.write() as connection:
            row = finish_attempt(connection, request_id, attempt, outcome)
        if row is not None:
            failure = outcome.failure.slug if isinstance(outcome, NotTraced) else None
            self.counts.count_end(row, AttemptEnd.SUCCEEDED if failure is None else AttemptEnd.FAILED, failure)
        return row is not None

    def charge(self, request_id: str, byte_size: int) -> None:
        """Count bytes that an attempt has stored, and that no result counts."""
        with self._transactions.write() as connection:
            count_stored_bytes(connection, request_id, byte_size)

    def release(self, request_id: str, attempt: int) -> bool:
        """Queue the request again, which is nobody's fault; False if the attempt is fenced."""
        with self._transactions.write() as connection:
            row = change_row(connection, *running_attempt(request_id, attempt), **BACK_TO_QUEUED)
        if row is not None:
            self.counts.count_end(row, AttemptEnd.RELEASED)
        return row is not None

    def retry(self, request_id: str, attempt: int, failure: Failure, attempts: int) -> bool:
        """Queue the request again after a fault of ours, or fail it after `attempts`; False if it is fenced."""
        with self._transactions.write() as connection:
            row = retry_attempt(connection, request_id, attempt, failure, attempts)
        if row is not None:
            self.counts.count_end(row, AttemptEnd.LOST, failure.slug)
        return row is not None

    def cancel(self, tenant: str, request_id: str, *, by: Actor = SERVICE) -> TraceStatus:
        """Cancel a request. Raises TraceRequestNotFound, TraceRequestEnded and ReleaseTooOld, which cancel nothing."""
        self.status(tenant, request_id)  # before it is changed: what cannot be read here is not cancelled
        cancelled = {"state": State.CANCELLED.value, "ended_at": datetime.now(UTC)}
        is_owned = _request.tenant == tenant
        with self._transactions.write() as connection:
            changed = change_row(connection, _request.id == request_id, is_owned, NOT_ENDED, **cancelled)
            if changed is not None:
                record(connection, by, tenant, "trace.cancel", request_id)
            row = find_status(connection, request_id, is_owned)
        request = status_of(row)
        if changed is not None:
            self.counts.count_cancelled(changed)
        else:
            raise TraceRequestEnded("the trace request has already ended", id=request_id, state=request.state.value)
        return request

    def delete(self, tenant: str, request_id: str, *, by: Actor = SERVICE) -> None:
        """Delete a request with all that is its own, and the artifacts that nothing else names.

        Files stay until the next sweep. Raises TraceRequestNotFound, TraceRequestNotEnded, TraceRequestHasVersion and
        TraceRequestContinued.
        """
        with self._transactions.write() as connection:
            remove_request(connection, tenant, request_id)
            record(connection, by, tenant, "trace.delete", request_id)

    def take_over(self, tenant: str, request_id: str) -> TraceStatus:
        """Note that somebody asks for a request that nobody asked for before. Raises TraceRequestNotFound."""
        is_owned = _request.tenant == tenant
        taken = update(tables.trace_requests).where(_request.id == request_id, is_owned).values(is_idle=False)
        with self._transactions.write() as connection:
            connection.execute(taken)
            row = find_status(connection, request_id, is_owned)
        return status_of(row)

    def recover(self, attempts: int) -> Sequence[TraceStatus]:
        """Queue again what a lost process was running, and return all queued requests, oldest first.

        Those that a newer release took wait for one.

        Only a process that is alone on the database may call this, before it claims anything.
        """
        running = select(_request.id, _request.attempt).where(_request.state == State.RUNNING.value)
        queued = (
            select(*STATUS_COLUMNS)
            .where(_request.state == State.QUEUED.value, _request.revision <= migrations.HEAD)
            .order_by(_request.created_at, _request.id)
        )
        lost = TracerLost("the process that ran this was lost", attempts=attempts).failure()
        with self._transactions.write() as connection:
            ended = [
                retry_attempt(connection, request_id, attempt, lost, attempts)
                for request_id, attempt in connection.execute(running).all()
            ]
            rows = connection.execute(queued).all()
        for row in ended:
            if row is not None:
                self.counts.count_end(row, AttemptEnd.LOST, lost.slug)
        return [status_of(row) for row in rows]


def _find_same_content(connection: Connection, request: TraceRequest) -> str | None:
    """Return the tenant's newest request with the same content that has succeeded or still may; None with `force`.

    A request whose model version was deleted does not count: its submitter would get no model. Nor does one of whose
    artifacts one is withdrawn, or one with `promote` always whose version is not the default version any more.
    """
    if request.spec.force:
        return None
    version = tables.model_versions.c
    version_is_there = exists().where(
        version.tenant == _request.tenant,
        version.name == _request.model_name,
        version.version == _request.model_version,
    )
    if request.spec.promote == "always":
        model = tables.models.c
        is_default = model.default_version == _request.model_version
        version_is_there = exists().where(
            model.tenant == _request.tenant, model.name == _request.model_name, is_default
        )
    owner = tables.artifact_owners.c
    is_withdrawn = exists().where(
        owner.tenant == _request.tenant,
        owner.withdrawn_by.is_not(None),
        has_artifact(owner.digest),
    )
    succeeded = and_(
        _request.state == State.SUCCEEDED.value,
        or_(_request.model_version.is_(None), version_is_there),
        not_(is_withdrawn),
    )
    query = (
        select(_request.id)
        .where(_request.tenant == request.tenant, _request.content == request.content, or_(NOT_ENDED, succeeded))
        .order_by(_request.created_at.desc(), _request.id.desc())
        .limit(1)
    )
    return connection.scalar(query)


def _check_room(
    connection: Connection, request: TraceRequest, queue_max: int | None, quotas: Quotas, staged_bytes: int
) -> None:
    """Raises QueueFull and what `check_quotas` raises.

    On PostgreSQL, submissions at the same moment may together exceed a limit, which is a guard and no promise.
    """
    check_quotas(connection, request, quotas, staged_bytes)
    of_pool = _request.state == State.QUEUED.value, _request.pool == request.pool, _request.is_idle.is_(False)
    waiting = connection.execute(select(func.count()).where(*of_pool)).scalar_one()
    if queue_max is not None and waiting >= queue_max:
        raise QueueFull("too many trace requests are waiting", pool=request.pool, waiting=waiting, limit=queue_max)
