"""Notices: what a process tells all processes that use the same PostgreSQL, once its transaction has succeeded.

A notice says where to look, and no more: whoever misses one finds the same in the tables, a little later.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import orjson
from sqlalchemy import Connection, Engine, text

from service.domain.errors import StorageUnavailable
from service.storage.jobs import channel

# changed: the trace request of this id has new events. queued: one may begin in the pool of this name.
# stop: one that runs in the pool of this name is to end.
NoticeKind = Literal["changed", "queued", "stop"]
_KINDS: dict[str, NoticeKind] = {"changed": "changed", "queued": "queued"}
_KINDS_OF_JOBS: dict[str, NoticeKind] = {"job_inserted": "queued", "abort_job_requested": "stop"}

# One channel for each schema: a database may have several services. What is told of jobs, all of them hear.
_CHANNEL = "'tracehouse_' || md5(current_schema())"


class Notice(NamedTuple):
    kind: NoticeKind
    subject: str


def tell(connection: Connection, notices: Iterable[Notice]) -> None:
    """Send the notices when the transaction commits."""
    statement = text(f"SELECT pg_notify({_CHANNEL}, :notice)")
    for notice in sorted(notices):
        connection.execute(statement, {"notice": " ".join(notice)})


class Notices:
    """An open connection on which notices arrive."""

    def __init__(self, connection: Connection, pools: Mapping[str, str]) -> None:
        self._connection = connection
        self._pools = pools

    def wait(self, within_s: float) -> Iterator[Notice]:
        """Yield what arrives, until nothing has for so many seconds. Raises StorageUnavailable."""
        import psycopg

        raw: Any = self._connection.connection.dbapi_connection  # psycopg's own
        try:
            for one in raw.notifies(timeout=within_s):
                notice = self._read(one.channel, one.payload)
                if notice is not None:
                    yield notice
        except psycopg.OperationalError as error:
            raise StorageUnavailable("the database does not tell of changes any more") from error

    def _read(self, channel: str, payload: str) -> Notice | None:
        """Return what is told, if it is known here: others may tell more, on these channels too."""
        if channel in self._pools:
            kind, subject = _KINDS_OF_JOBS.get(_kind_of_job(payload)), self._pools[channel]
        else:
            word, _, subject = payload.partition(" ")
            kind = _KINDS.get(word)
        return None if kind is None else Notice(kind, subject)


def _kind_of_job(payload: str) -> str:
    """Return what happened to a job, as procrastinate tells it."""
    try:
        return str(orjson.loads(payload)["type"])
    except (ValueError, TypeError, KeyError):
        return ""


@contextmanager
def listen(engine: Engine, pools: Collection[str]) -> Iterator[Notices]:
    """Listen on a connection of its own until the block ends, also to what is told of the jobs of these pools."""
    of_jobs = {channel(pool): pool for pool in pools}
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.detach()  # it takes no place in the pool, and is closed at the end
        own = connection.scalar(text(f"SELECT {_CHANNEL}"))
        for name in (own, *of_jobs):
            connection.execute(text(f'LISTEN "{name}"'))
        yield Notices(connection, of_jobs)
