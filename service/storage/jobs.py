"""Jobs: the queue of a PostgreSQL, which procrastinate keeps. No other module calls it or knows its tables.

A job has its trace request's id twice: as its queueing lock, so that one at most waits (`todo`), and as its lock, so
that one at most has a slot (`doing`); that one names its worker. When a turn ends, its job is deleted; the request has
a new one by then if it waits again, which no worker begins before.

procrastinate's functions add, abort and end jobs, and say which workers are there. Its `fetch_job` is not used: it
knows priorities, where the next request follows from what every tenant runs. So a job is claimed by its request.

Its functions are called by their names in the database, where its own methods would need a connection of their own; and
each call is one statement, for a turn costs hardly more than the ways there and back.
"""

from sqlalchemy import ColumnElement, Connection, Executable, column, exists, func, literal_column, select, table, text

_job = table("procrastinate_jobs", *map(column, "id queue_name status lock abort_requested worker_id".split()))
_event = table("procrastinate_events", column("id"), column("job_id"), column("type"))
workers = table("procrastinate_workers", column("id"))

# As procrastinate's index has it. A parameter would be a text, which PostgreSQL compares with no enumeration.
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

_ADD = text(
    """
    SELECT procrastinate_defer_jobs_v1(
        ARRAY[ROW(:pool, 'trace', 0, :request, :request, '{}', NULL)::procrastinate_job_to_defer_v1]
    )
    WHERE NOT EXISTS (SELECT FROM procrastinate_jobs WHERE queueing_lock = :request AND status = 'todo')
    """
)
_CLAIM = text(
    """
    UPDATE procrastinate_jobs SET status = 'doing', worker_id = :worker
    WHERE queueing_lock = :request AND status = 'todo'
    """
)
# What somebody else has locked ends anyway. Whoever has several give way would otherwise wait for one with another.
_ABORT = text(
    """
    SELECT procrastinate_cancel_job_v1(id, abort => true, delete_job => true)
    FROM (
        SELECT id FROM procrastinate_jobs WHERE lock = :request AND status = 'doing' FOR UPDATE SKIP LOCKED
    ) AS runs
    """
)
_CANCEL = text(
    """
    SELECT procrastinate_cancel_job_v1(id, abort => true, delete_job => true)
    FROM procrastinate_jobs WHERE lock = :request AND status = 'doing'
    UNION ALL
    SELECT procrastinate_cancel_job_v1(id, abort => true, delete_job => true)
    FROM procrastinate_jobs WHERE queueing_lock = :request AND status = 'todo'
    """
)
# The jobs are locked first: one that somebody else has ended meanwhile would be a fault.
_END = """
    SELECT pool, procrastinate_finish_job_v1(id, 'succeeded', delete_job => true)
    FROM (
        SELECT id, queue_name AS pool FROM procrastinate_jobs WHERE status = 'doing' AND {which} FOR UPDATE
    ) AS ended
    """
_END_OWN = text(_END.format(which="lock = :request AND worker_id = :worker"))
_END_LOST = text(_END.format(which="worker_id IS NULL"))


def channel(pool: str) -> str:
    """Return where PostgreSQL tells that a job was added to the pool, or that one that runs there is to be aborted."""
    return f"procrastinate_queue_v1#{pool}"


def has_slot(request_id: ColumnElement[str]) -> ColumnElement[bool]:
    return exists().where(_job.c.lock == request_id, _HAS_SLOT)


def add(connection: Connection, pool: str, request_id: str) -> None:
    """Let the request wait once the transaction has succeeded, unless it does."""
    connection.execute(_ADD, {"pool": pool, "request": request_id})


def claim(connection: Connection, pool: str, request_id: str, worker: int) -> None:
    """Give the worker's slot to the request. If it has no job, as after a move to this database, it gets one."""
    claimed = {"request": request_id, "worker": worker}
    if not connection.execute(_CLAIM, claimed).rowcount:
        add(connection, pool, request_id)
        connection.execute(_CLAIM, claimed)


def abort(connection: Connection, request_id: str) -> None:
    """Have the worker stop that runs the request, unless its job is being ended or aborted just now."""
    connection.execute(_ABORT, {"request": request_id})


def cancel(connection: Connection, request_id: str) -> None:
    """Let the request wait no more, and have the worker stop that runs it."""
    connection.execute(_CANCEL, {"request": request_id})


def end(connection: Connection, request_id: str, worker: int) -> str | None:
    """End the job that has a slot of this worker, and return its pool; None if the worker has lost it."""
    pool: str | None = connection.scalar(_END_OWN, {"request": request_id, "worker": worker})
    return pool


# ── workers


def register(connection: Connection) -> int:
    """Return the number of a new worker."""
    number: int = connection.execute(_called("register_worker_v1")).scalar_one()
    return number


def note_alive(connection: Connection, worker: int) -> None:
    """Say that the worker is there."""
    connection.execute(_called("update_heartbeat_v1", worker))


def is_there(worker: ColumnElement[int]) -> ColumnElement[bool]:
    """Whether the worker has not been taken for lost, which it then is for good."""
    return exists().where(workers.c.id == worker)


def unregister(connection: Connection, worker: int) -> None:
    """Let the worker be gone. What it has not ended is lost."""
    connection.execute(_called("unregister_worker_v1", worker))


def remove_silent(connection: Connection, silent_s: float) -> None:
    """Let workers be lost that have said nothing for so long."""
    connection.execute(_called("prune_stalled_workers_v1", silent_s))


def end_lost(connection: Connection) -> set[str]:
    """End the jobs whose workers are lost, and return their pools."""
    return {*connection.execute(_END_LOST).scalars()}


def _called(function: str, *values: float) -> Executable:
    """Return what calls one of procrastinate's functions."""
    return select(getattr(func, f"procrastinate_{function}")(*values))
