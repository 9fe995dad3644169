"""Rows of trace requests: how one is read, and the one way to change it, which records an event too."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import orjson
from pydantic import TypeAdapter
from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Text,
    case,
    cast,
    func,
    insert,
    literal,
    select,
    type_coerce,
    update,
)

import migrations
from service.domain.errors import TraceRequestNotFound
from service.domain.trace_request import ModelVersionRef, State, TraceRequest, TraceStatus
from service.storage import tables
from service.storage.events import record_change
from service.storage.releases import is_newer, reading
from service.storage.transactions import AnyRow
from tracehouse.artifact.blob import BlobRef
from tracehouse.spec.trace_spec import ModelSource, TraceSpec

_request = tables.trace_requests.c
_submission = tables.submissions.c
_source = tables.sources.c
_PLAIN = [name for name in TraceStatus.model_fields if name != "model"]
_files: TypeAdapter[dict[str, BlobRef]] = TypeAdapter(dict[str, BlobRef])


def _as_stored(name: str) -> ColumnElement[Any]:
    """Return a column of trace requests, with documents as texts: they are validated once the transaction has ended."""
    column = _request[name]
    return type_coerce(column, Text).label(name) if isinstance(column.type, tables.Document) else column


STATUS_COLUMNS = (*map(_as_stored, _PLAIN), _request.model_version)
# A list leaves out findings, which may be long.
LIST_COLUMNS = tuple(column for column in STATUS_COLUMNS if column.name != "findings")
_CHANGED = tuple(
    _request[name]
    for name in "id tenant pool events attempt state stage progress verdict created_at started_at".split()
)
# A request without what was submitted, with its places in the indexes: measured with SQLite.
_ROW_BYTES = 800
NOT_ENDED = _request.state.in_([State.QUEUED.value, State.RUNNING.value])


def has_artifact(digest: ColumnElement[str]) -> ColumnElement[bool]:
    """Return the condition that a request has made the artifact, which it may also name as one that it goes on from."""
    return cast(_request.artifacts, Text).contains(literal('"digest":"') + digest + literal('"'))


def lock_content(connection: Connection, tenant: str, content: str) -> None:
    """Keep other submissions of this content waiting until the transaction ends, as SQLite's write lock does."""
    if connection.dialect.name == "postgresql":
        name = f"{tenant} {content}"
        connection.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(name, 0))))


def change_row(connection: Connection, *conditions: ColumnElement[bool], **values: Any) -> AnyRow | None:
    """Change the one row that meets the conditions, record an event and return the row; None if there is none.

    Documents among the values, such as findings, count as stored bytes.
    """
    values["stored_bytes"] = values.get("stored_bytes", _request.stored_bytes) + _document_bytes(values)
    changing = update(tables.trace_requests).where(*conditions).values(events=_request.events + 1, **values)
    row = connection.execute(changing.returning(*_CHANGED)).one_or_none()
    if row is not None:
        record_change(connection, row)
    return row


def _document_bytes(values: Mapping[str, Any]) -> int:
    return sum(
        tables.document_bytes(_request[name], value)
        for name, value in values.items()
        if value is not None and isinstance(_request[name].type, tables.Document)
    )


def running_attempt(request_id: str, attempt: int) -> tuple[ColumnElement[bool], ...]:
    """Return the fence: the conditions that this attempt is running."""
    return _request.id == request_id, _request.attempt == attempt, _request.state == State.RUNNING.value


def find_status(connection: Connection, request_id: str, *conditions: ColumnElement[bool]) -> AnyRow:
    """Return a row for `status_of`. Raises TraceRequestNotFound if no row meets the conditions."""
    return _find(connection, select(*STATUS_COLUMNS), request_id, conditions)


def find_request(connection: Connection, request_id: str, *conditions: ColumnElement[bool]) -> AnyRow:
    """Return a row for `request_of`. Raises TraceRequestNotFound if no row meets the conditions."""
    query = (
        select(*STATUS_COLUMNS, _submission.spec, _source.source, _source.files)
        .join(tables.submissions, _submission.request_id == _request.id)
        .join(tables.sources, _source.request_id == _request.id)
    )
    return _find(connection, query, request_id, conditions)


def find_source(connection: Connection, request_id: str, *conditions: ColumnElement[bool]) -> AnyRow:
    """Return a row for `source_of`. Raises TraceRequestNotFound if no row meets the conditions."""
    columns = _source.source, _source.files, _request.revision
    query = select(*columns).join(tables.trace_requests, _request.id == _source.request_id)
    return _find(connection, query, request_id, conditions)


def find_columns(
    connection: Connection,
    request_id: str,
    *columns: ColumnElement[Any],
    where: ColumnElement[bool],
    is_locked: bool = False,
) -> AnyRow:
    """Return these columns of a row, which stays locked if `is_locked`. Raises TraceRequestNotFound."""
    query = select(*columns)
    return _find(connection, query.with_for_update() if is_locked else query, request_id, (where,))


def status_of(row: AnyRow) -> TraceStatus:
    """Return a row's status, without findings if the row has none. Call this when the transaction has ended.

    Raises ReleaseTooOld, as do those that follow.
    """
    with reading(row.revision):
        return TraceStatus.model_validate(_fields_of(row))


def request_of(row: AnyRow) -> TraceRequest:
    """Return a row's request. Call this when the transaction has ended: a spec may have megabytes of data."""
    with reading(row.revision):
        spec = TraceSpec.model_validate({**orjson.loads(row.spec), "source": orjson.loads(row.source)})
        return TraceRequest.model_validate({**_fields_of(row), "spec": spec, "files": _files.validate_json(row.files)})


def source_of(row: AnyRow) -> tuple[ModelSource, dict[str, BlobRef]]:
    """Return the source that was submitted, and the uploaded files. Call this when the transaction has ended."""
    with reading(row.revision):
        return ModelSource.model_validate_json(row.source), _files.validate_json(row.files)


def _find(
    connection: Connection, query: Select[Any], request_id: str, conditions: tuple[ColumnElement[bool], ...]
) -> AnyRow:
    row: AnyRow | None = connection.execute(query.where(_request.id == request_id, *conditions)).one_or_none()
    if row is None:
        raise TraceRequestNotFound("there is no trace request with this id", id=request_id)
    return row


def _fields_of(row: AnyRow) -> dict[str, Any]:
    """Return a row's columns as the fields of a TraceStatus."""
    version = row.model_version
    model = None if version is None else ModelVersionRef(name=row.model_name, version=version)
    read = partial(_read, is_exact=is_newer(row.revision))
    return {"model": model, **{name: read(name, row._mapping[name]) for name in _PLAIN if name in row._mapping}}


def _read(name: str, value: Any, *, is_exact: bool) -> Any:
    kind = _request[name].type
    return kind.read(value, is_exact=is_exact) if isinstance(kind, tables.Document) else value


def raised_revision() -> ColumnElement[str]:
    """Return the revision of a row into which this release writes documents: a newer one stays."""
    return case((_request.revision < migrations.HEAD, migrations.HEAD), else_=_request.revision)


def request_bytes(request: TraceRequest) -> int:
    """Return what a new request counts, with its files."""
    return _ROW_BYTES + request.submitted_bytes


def insert_request(connection: Connection, request: TraceRequest) -> None:
    row = {name: getattr(request, name) for name in _PLAIN}
    row |= {"state": request.state.value, "stage": request.stage.value, "stored_bytes": request_bytes(request)}
    row["revision"] = migrations.HEAD
    adding = insert(tables.trace_requests).values(**row, faults=0, events=1).returning(*_CHANGED)
    added = connection.execute(adding).one()
    connection.execute(insert(tables.submissions).values(request_id=request.id, spec=request.stored.spec))
    stored = {"files": request.stored.files, "source": request.stored.source}
    connection.execute(insert(tables.sources).values(request_id=request.id, **stored))
    record_change(connection, added)
