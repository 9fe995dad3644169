"""Notices: what a process tells all processes that use the same PostgreSQL, once its transaction has succeeded.

A notice says where to look, and no more: whoever misses one finds the same in the tables, a little later.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

from sqlalchemy import Connection, Engine, text

from service.domain.errors import StorageUnavailable

# changed: the trace request of this id has new events. queued: one waits in the pool of this name.
# stop: look whether the turn of the trace request of this id still lasts.
NoticeKind = Literal["changed", "queued", "stop"]
_KINDS: dict[str, NoticeKind] = {"changed": "changed", "queued": "queued", "stop": "stop"}

# One channel for each schema: a database may have several services.
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

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def wait(self, within_s: float) -> Iterator[Notice]:
        """Yield what arrives, until nothing has for so many seconds. Raises StorageUnavailable."""
        import psycopg

        raw: Any = self._connection.connection.dbapi_connection  # psycopg's own
        try:
            for one in raw.notifies(timeout=within_s):
                kind, _, subject = one.payload.partition(" ")
                if kind in _KINDS:
                    yield Notice(_KINDS[kind], subject)
        except psycopg.OperationalError as error:
            raise StorageUnavailable("the database does not tell of changes any more") from error


@contextmanager
def listen(engine: Engine) -> Iterator[Notices]:
    """Listen on a connection of its own until the block ends."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.detach()  # it takes no place in the pool, and is closed at the end
        channel = connection.scalar(text(f"SELECT {_CHANNEL}"))
        connection.execute(text(f'LISTEN "{channel}"'))
        yield Notices(connection)
