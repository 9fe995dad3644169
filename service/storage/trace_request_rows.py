"""Rows of trace requests: how one is read, and the one way to change it, which records an event too."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, Connection, Text, cast, insert, literal, select, update

from service.domain.errors import TraceRequestNotFound
from service.domain.trace_request import ModelVersionRef, State, TraceRequest, TraceStatus
from service.storage import tables
from service.storage.events import record_change
from service.storage.transactions import AnyRow

_request = tables.trace_requests.c
_submission = tables.submissions.c
_PLAIN = [name for name in TraceStatus.model_fields if name != "model"]
# A list leaves out findings, which may be long.
LIST_COLUMNS = (*(_request[name] for name in _PLAIN if name != "findings"), _request.model_name, _request.model_version)
STATUS_COLUMNS = (*(_request[name] for name in _PLAIN), _request.model_name, _request.model_version)
_CHANGED = tuple(
    _request[name] for name in ("id", "tenant", "events", "attempt", "state", "stage", "progress", "verdict")
)
# A request without what was submitted, with its places in the indexes: measured with SQLite.
_ROW_BYTES = 800
NOT_ENDED = _request.state.in_([State.QUEUED.value, State.RUNNING.value])


def has_artifact(digest: ColumnElement[str]) -> ColumnElement[bool]:
    """Return the condition that a request has made the artifact, which it may also name as one that it goes on from."""
    return cast(_request.artifacts, Text).contains(literal('"digest":"') + digest + literal('"'))


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


def read_status(connection: Connection, request_id: str, *conditions: ColumnElement[bool]) -> TraceStatus:
    """Raises TraceRequestNotFound if no row meets the conditions."""
    row = connection.execute(select(*STATUS_COLUMNS).where(_request.id == request_id, *conditions)).one_or_none()
    if row is None:
        raise _not_found(request_id)
    return TraceStatus.model_validate(fields_of(row))


def read_request(connection: Connection, request_id: str, *conditions: ColumnElement[bool]) -> TraceRequest:
    """Raises TraceRequestNotFound if no row meets the conditions."""
    query = (
        select(*STATUS_COLUMNS, _submission.spec, _submission.files)
        .join(tables.submissions, _submission.request_id == _request.id)
        .where(_request.id == request_id, *conditions)
    )
    row = connection.execute(query).one_or_none()
    if row is None:
        raise _not_found(request_id)
    return TraceRequest.model_validate({**fields_of(row), "spec": row.spec, "files": row.files})


def fields_of(row: AnyRow) -> dict[str, Any]:
    """Return a row's columns as the fields of a TraceStatus."""
    version = row.model_version
    model = None if version is None else ModelVersionRef(name=row.model_name, version=version)
    return {"model": model, **{name: row._mapping[name] for name in _PLAIN if name in row._mapping}}


def request_bytes(request: TraceRequest) -> int:
    """Return what a new request counts, with its files."""
    return _ROW_BYTES + request.submitted_bytes


def insert_request(connection: Connection, request: TraceRequest) -> None:
    row = {name: getattr(request, name) for name in _PLAIN}
    row |= {"state": request.state.value, "stage": request.stage.value, "model_name": request.spec.model}
    row |= {"stored_bytes": request_bytes(request)}
    adding = insert(tables.trace_requests).values(**row, faults=0, events=1).returning(*_CHANGED)
    added = connection.execute(adding).one()
    submission = {"request_id": request.id, "spec": request.spec, "files": request.files}
    connection.execute(insert(tables.submissions).values(submission))
    record_change(connection, added)


def _not_found(request_id: str) -> TraceRequestNotFound:
    return TraceRequestNotFound("there is no trace request with this id", id=request_id)
