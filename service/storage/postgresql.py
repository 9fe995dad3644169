"""Connections to PostgreSQL, on which every wait ends: for a connection, for an answer, for somebody else's lock.

The kernel of a host whose PostgreSQL is frozen still acknowledges what is sent, and so does a proxy before it. Only a
limit on the wait for the answer itself finds that out.
"""

from collections.abc import Generator
from threading import Lock
from time import monotonic
from typing import Any, TypeVar

import psycopg
from sqlalchemy import URL, Engine, create_engine, event

# For a connection, and for what a database answers at once: whether it is there, a lock that is not waited for, LISTEN.
_AT_ONCE_S = 5
# For any other statement. The database itself ends one that takes so long, and this process a little later.
_STATEMENT_S = 30
_LATER_S = 2
# A transaction of a process that is frozen has locks that others wait for. Ours do nothing else between two statements.
_IDLE_S = 10
# For one of this process's connections, all of which are in use.
_POOL_S = 10
# A host that vanishes is noticed within half a minute; the kernel's default is two hours. Of what was sent, and not
# acknowledged, keepalives know nothing.
_WAITING: dict[str, int | str] = {
    "connect_timeout": _AT_ONCE_S,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
    "client_encoding": "utf8",  # a database with no encoding of its own gives bytes otherwise
}
_LIMITS = f"""
SELECT set_config('statement_timeout', '{_STATEMENT_S}s', false),
    set_config('idle_in_transaction_session_timeout', '{_IDLE_S}s', false)
"""

_Answer = TypeVar("_Answer")


def connect_postgresql(url: URL, *, is_limited: bool = True) -> Engine:
    """Return what connects. Unless it `is_limited`, a statement may take as long as it likes, as migrations do."""
    engine = create_engine(
        url.set(drivername="postgresql+psycopg"),
        pool_pre_ping=True,
        pool_timeout=_POOL_S,
        connect_args=_WAITING,
        hide_parameters=True,  # parameters may be secrets, and errors are logged
    )
    if is_limited:
        door = _Door()

        @event.listens_for(engine, "do_connect")
        def _(_dialect: object, _record: object, arguments: list[Any], options: dict[str, Any]) -> _Connection:
            return door.connect(*arguments, **options)

        @event.listens_for(engine, "connect")
        def _(raw: Any, _record: object) -> None:
            # By a statement, because poolers refuse such options of a connection.
            raw.execute(_LIMITS)
            raw.commit()

    return engine


class _Connection(psycopg.Connection[Any]):
    """Waits for no answer for ever. One that did not come in time ends the connection, and nothing more is known."""

    def wait(self, gen: Generator[Any, Any, _Answer], *arguments: Any, **options: Any) -> _Answer:
        within_s = _AT_ONCE_S if self.autocommit else _STATEMENT_S + _LATER_S
        try:
            return super().wait(_within(within_s, gen), *arguments, **options)
        except _NoAnswer as error:
            self.pgconn.finish()
            raise psycopg.OperationalError(f"there was no answer within {within_s} s") from error


class _NoAnswer(Exception):
    pass


def _within(seconds: float, gen: Generator[Any, Any, _Answer]) -> Generator[Any, Any, _Answer]:
    """Do what the generator does, which is resumed several times in each second, until so many have passed."""
    until = monotonic() + seconds
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            # What has arrived is looked at first: this process may have been frozen itself.
            wanted = gen.send(ready)
            if not ready and monotonic() > until:
                raise _NoAnswer
    except StopIteration as stop:
        answer: _Answer = stop.value
        return answer


class _Door:
    """Lets one at a time try to connect while the database does not answer, and refuses all others at once.

    So that no more than one thread waits for a database that is silent.
    """

    def __init__(self) -> None:
        self._is_silent = False
        self._trying = Lock()

    def connect(self, *arguments: Any, **options: Any) -> _Connection:
        if not self._is_silent:
            return self._try(*arguments, **options)
        if not self._trying.acquire(blocking=False):
            raise psycopg.OperationalError("the database did not answer just now, and is being asked again")
        try:
            return self._try(*arguments, **options)
        finally:
            self._trying.release()

    def _try(self, *arguments: Any, **options: Any) -> _Connection:
        try:
            connection = _Connection.connect(*arguments, **options)
        except psycopg.errors.ConnectionTimeout:
            self._is_silent = True
            raise
        self._is_silent = False
        return connection
