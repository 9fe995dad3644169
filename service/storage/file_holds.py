"""File holds: whoever writes files that no row names yet holds the files, and nobody removes any meanwhile.

A hold is a lock that ends with its process: on PostgreSQL an advisory lock of a connection of its own, which other
hosts see too; with SQLite a lock on a file beside the database.
"""

import fcntl
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from time import monotonic, sleep

from sqlalchemy import Engine, text

from service.domain.errors import FilesInUse
from service.storage.transactions import translate_errors

_POLL_S = 0.01
# Others are tried for this long, each of which holds the files for seconds: from its first file to its row.
_PATIENCE_S = 30.0
_LOCK = "hashtextextended('tracehouse files of ' || current_schema(), 0)"


class FileHolds:
    """Any number may write at a time; whoever removes files is alone."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @contextmanager
    def write(self) -> Iterator[None]:
        """Keep others from removing files, from before the first file is written until a row names it."""
        with self._opened() as lock:
            while not lock(is_shared=True):  # a removal holds them for some milliseconds
                sleep(_POLL_S)
            yield

    @contextmanager
    def remove(self, patience_s: float = _PATIENCE_S) -> Iterator[None]:
        """Wait until nobody writes, and keep others from beginning to. Raises FilesInUse."""
        with self._opened() as lock:
            until = monotonic() + patience_s
            while not lock(is_shared=False):
                if monotonic() > until:
                    raise FilesInUse("others store files", waited_s=patience_s)
                sleep(_POLL_S)
            yield

    def _opened(self) -> "AbstractContextManager[_TryLock]":
        """Give what tries to take the lock, which is given back at the end."""
        return (_advisory_lock if self._engine.dialect.name == "postgresql" else _file_lock)(self._engine)


_TryLock = Callable[..., bool]


@contextmanager
def _advisory_lock(engine: Engine) -> Iterator[_TryLock]:
    with translate_errors(), engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.detach()  # it is closed at the end, and the lock with it; and it takes no place in the pool

        def try_lock(*, is_shared: bool) -> bool:
            function = "pg_try_advisory_lock_shared" if is_shared else "pg_try_advisory_lock"
            return bool(connection.scalar(text(f"SELECT {function}({_LOCK})")))

        yield try_lock


@contextmanager
def _file_lock(engine: Engine) -> Iterator[_TryLock]:
    assert engine.url.database is not None
    with Path(f"{engine.url.database}-files").open("ab") as file:

        def try_lock(*, is_shared: bool) -> bool:
            try:
                fcntl.flock(file, (fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

        yield try_lock
