"""Jobs: the queue of a PostgreSQL, which procrastinate keeps. No other module calls it.

A job has its trace request's id twice: as its queueing lock, so that one at most waits (`todo`), and as its lock, so
that one at most has a slot (`doing`); that one names its worker. When a turn ends, its job is deleted; the request has
a new one by then if it waits again, which no worker begins before.

What changes jobs and workers is procrastinate's own queries, within our transactions. Its `fetch_job` is not used: it
knows priorities, where the next request follows from what every tenant runs. So a job is claimed by its request.
"""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    CursorResult,
    Row,
    Select,
    column,
    exists,
    func,
    literal_column,
    select,
    table,
    update,
)

_job = table(
    "procrastinate_jobs",
    *map(column, "id queue_name status lock queueing_lock abort_requested worker_id".split()),
)
_event = table("procrastinate_events", column("id"), column("job_id"), column("type"))
_worker = table("procrastinate_workers", column("id"))

# As procrastinate's indexes have it. A parameter would be a text, which PostgreSQL compares with no enumeration.
_WAITS = _job.c.status == literal_column("'todo'")
_HAS_SLOT = _job.c.status == literal_column("'doing'")
_began = select(func.max(_event.c.id)).where(_event.c.job_id == _job.c.id, _event.c.type == literal_column("'started'"))

# The jobs that have a slot. `began` is a number: the later a turn began, the higher.
running = (
    select(
        _job.c.lock.label("request_id"),
        _job.c.queue_name.label("pool"),
        _job.c.worker_id.label("worker"),
        _job.c.abort_requested.label("is_aborted"),
        _began.scalar_subquery().label("began"),
    )
    .where(_HAS_SLOT)
    .subquery("running")
)


def channel(pool: str) -> str:
    """Return where PostgreSQL tells that a job was added to the pool, or that one that runs there is to be aborted."""
    from procrastinate.manager import get_channel_for_queues

    [name] = get_channel_for_queues([pool])
    return name


def has_slot(request_id: ColumnElement[str]) -> ColumnElement[bool]:
    return exists().where(_job.c.lock == request_id, _HAS_SLOT)


def add(connection: Connection, pool: str, request_id: str) -> None:
    """Let the request wait once the transaction has succeeded, unless it does."""
    from psycopg.types.json import Jsonb

    if connection.execute(_of(request_id, _job.c.queueing_lock, _WAITS)).first() is None:
        # Its queue, task, priority, lock, queueing lock, arguments, and when it is due.
        job = pool, "trace", 0, request_id, request_id, Jsonb({}), None
        _run(connection, "defer_jobs", jobs=[job])


def claim(connection: Connection, pool: str, request_id: str, worker: int) -> None:
    """Give the worker's slot to the request. If it has no job, as after a move to this database, it gets one."""
    of_request = _job.c.queueing_lock == request_id, _WAITS
    claiming = update(_job).where(*of_request).values(status=literal_column("'doing'"), worker_id=worker)
    if not connection.execute(claiming).rowcount:
        add(connection, pool, request_id)
        connection.execute(claiming)


def abort(connection: Connection, request_id: str) -> None:
    """Have the worker stop that runs the request, unless its job is being ended or aborted just now.

    Whoever aborts several would otherwise wait for one, and have others wait for another.
    """
    runs = _of(request_id, _job.c.lock, _HAS_SLOT).with_for_update(skip_locked=True)
    _cancel(connection, connection.execute(runs).all())


def cancel(connection: Connection, request_id: str) -> None:
    """Let the request wait no more, and have the worker stop that runs it."""
    _cancel(connection, connection.execute(_of(request_id, _job.c.lock, _HAS_SLOT)).all())
    _cancel(connection, connection.execute(_of(request_id, _job.c.queueing_lock, _WAITS)).all())


def end(connection: Connection, request_id: str, worker: Select[int]) -> str | None:
    """End the job that has a slot of this worker, and return its pool; None if the worker has lost it."""
    own = _of(request_id, _job.c.lock, _HAS_SLOT).where(_job.c.worker_id == worker.scalar_subquery())
    return next(iter(_end(connection, own)), None)


# ── workers


def register(connection: Connection) -> int:
    """Return the number of a new worker."""
    number: int = _run(connection, "register_worker").scalar_one()
    return number


def note_alive(connection: Connection, worker: int) -> None:
    """Say that the worker is there."""
    _run(connection, "update_heartbeat", worker_id=worker)


def is_there(worker: ColumnElement[int]) -> ColumnElement[bool]:
    """Whether the worker has not been taken for lost, which it then is for good."""
    return exists().where(_worker.c.id == worker)


def hold(connection: Connection, worker: Select[int]) -> int | None:
    """Let nobody take the worker for lost until the transaction ends, and return its number; None if somebody has."""
    there = select(_worker.c.id).where(_worker.c.id == worker.scalar_subquery())
    return connection.scalar(there.with_for_update(read=True, key_share=True))


def unregister(connection: Connection, worker: int) -> None:
    """Let the worker be gone. What it has not ended is lost."""
    _run(connection, "unregister_worker", worker_id=worker)


def remove_silent(connection: Connection, silent_s: float) -> None:
    """Let workers be lost that have said nothing for so long."""
    _run(connection, "prune_stalled_workers", seconds_since_heartbeat=silent_s)


def end_lost(connection: Connection) -> set[str]:
    """End the jobs whose workers are lost, and return their pools."""
    return {*_end(connection, select(_job.c.id, _job.c.queue_name).where(_HAS_SLOT, _job.c.worker_id.is_(None)))}


def _of(request_id: str, lock: ColumnElement[str], state: ColumnElement[bool]) -> Select[int, str]:
    return select(_job.c.id, _job.c.queue_name).where(lock == request_id, state)


def _cancel(connection: Connection, jobs: Iterable[Row[int, str]]) -> None:
    for job in jobs:
        _run(connection, "cancel_job", job_id=job.id, abort=True, delete_job=True)


def _end(connection: Connection, jobs: Select[int, str]) -> list[str]:
    """End these jobs and return their pools. They are locked first: one that has ended meanwhile would be a fault."""
    ended = connection.execute(jobs.with_for_update()).all()
    for job in ended:
        _run(connection, "finish_job", job_id=job.id, status="succeeded", delete_job=True)
    return [job.queue_name for job in ended]


def _run(connection: Connection, query: str, **values: Any) -> CursorResult[Any]:
    """Run one of procrastinate's queries in the transaction."""
    from procrastinate.sql import queries  # an extra, which SQLite does not need

    return connection.exec_driver_sql(queries[query], values)
