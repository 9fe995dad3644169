"""Removal: a trace request goes with all that is its own, and an artifact with the last that names it.

What a model version names stays: its trace request, those whose checks withdrew its artifacts, and its artifacts.
"""

import re
from collections.abc import Collection

from sqlalchemy import ColumnElement, Connection, Text, cast, delete, exists, literal, or_, select

from service.domain.errors import TraceRequestContinued, TraceRequestHasVersion, TraceRequestNotEnded
from service.domain.trace_request import State
from service.storage import tables
from service.storage.artifacts import lock_artifacts
from service.storage.models import version_has_artifact
from service.storage.releases import knows_all
from service.storage.trace_request_rows import NOT_ENDED, find_columns, lock_content
from service.storage.transactions import mark_changed

_request = tables.trace_requests.c
_version = tables.model_versions.c
_owner = tables.artifact_owners.c
_artifact = tables.artifacts.c
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def find_digests(text: str | None) -> set[str]:
    """Return all digests in a stored text, whatever they stand for."""
    return set(_DIGEST.findall(text or ""))


def remove_request(connection: Connection, tenant: str, request_id: str) -> None:
    """Remove a request that has ended, within a transaction.

    Raises TraceRequestNotFound, TraceRequestNotEnded, TraceRequestHasVersion and TraceRequestContinued.
    """
    is_owned = _request.tenant == tenant
    found = find_columns(connection, request_id, _request.content, where=is_owned)
    # In the order in which a submission and the end of an attempt take these locks.
    lock_content(connection, tenant, found.content)
    columns = _request.state, cast(_request.artifacts, Text).label("artifacts")
    row = find_columns(connection, request_id, *columns, where=is_owned, is_locked=True)
    lock_artifacts(connection, tenant)
    if not State(row.state).is_final:
        raise TraceRequestNotEnded("the trace request has not ended", id=request_id, state=row.state)
    digests = find_digests(row.artifacts)
    _require_unnamed(connection, tenant, request_id)
    _require_not_continued(connection, tenant, request_id, digests)
    for table in (tables.idempotency_keys, tables.events, tables.submissions, tables.sources):
        connection.execute(delete(table).where(table.c.request_id == request_id))
    connection.execute(delete(tables.trace_requests).where(_request.id == request_id))
    mark_changed(connection, request_id)
    remove_unnamed_artifacts(connection, tenant, digests)


def remove_unnamed_artifacts(connection: Connection, tenant: str, digests: Collection[str]) -> int:
    """Remove those of the tenant's artifacts that nothing of the tenant names; return how many it has no more.

    The tenant's artifacts are locked. Where a newer release may name them too, they are left to its next sweep.
    """
    if not knows_all(connection):
        return 0
    removed = 0
    for digest in digests:
        its = _owner.tenant == tenant, _owner.digest == digest
        unnamed = delete(tables.artifact_owners).where(*its, ~_is_named(tenant, digest))
        removed += connection.execute(unnamed).rowcount
    # Another tenant may be storing the same artifact: the lock waits for that, and the next statement sees it.
    of_digests = _artifact.digest.in_(digests)
    connection.execute(select(_artifact.digest).where(of_digests).order_by(_artifact.digest).with_for_update())
    has_owner = exists().where(_owner.digest == _artifact.digest)
    connection.execute(delete(tables.artifacts).where(of_digests, ~has_owner))
    return removed


def _is_named(tenant: str, digest: str) -> ColumnElement[bool]:
    """Return the condition that a trace request or a model version of the tenant has, or needs, the artifact."""
    # Also as the one that another goes on from.
    made = _request.tenant == tenant, cast(_request.artifacts, Text).contains(digest)
    goes_on = _request.tenant == tenant, _request.continues == digest, NOT_ENDED
    serves = _version.tenant == tenant, version_has_artifact(literal(digest))
    return or_(exists().where(*made), exists().where(*goes_on), exists().where(*serves))


def _require_unnamed(connection: Connection, tenant: str, request_id: str) -> None:
    withdrew = cast(_version.withdrawn, Text).contains(f'"{request_id}"')
    named = select(_version.name, _version.version).where(
        _version.tenant == tenant, or_(_version.trace_request == request_id, withdrew)
    )
    row = connection.execute(named.order_by(_version.name, _version.version).limit(1)).one_or_none()
    if row is None:
        return
    raise TraceRequestHasVersion(
        f"version {row.version} of {row.name!r} names this trace request",
        id=request_id,
        model=row.name,
        version=row.version,
        remedy=f"Delete the version first: DELETE /models/{row.name}/versions/{row.version}.",
    )


def _require_not_continued(connection: Connection, tenant: str, request_id: str, digests: Collection[str]) -> None:
    """Raise TraceRequestContinued if an unfinished request needs what was submitted here."""
    going_on = select(_request.id).where(_request.tenant == tenant, _request.continues.in_(digests), NOT_ENDED)
    other = connection.scalar(going_on.where(_request.id != request_id).limit(1))
    if other is not None:
        detail = f"trace request {other} goes on with the check of its artifact"
        raise TraceRequestContinued(detail, id=request_id, trace_request=other)
