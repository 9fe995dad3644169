"""Releases side by side: what a newer one has written may be more than this one can read."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine

import migrations
from service.domain.errors import ReleaseTooOld

_UNREADABLE = "a newer release wrote this, and this process cannot read it"


@contextmanager
def reading(revision: str) -> Iterator[None]:
    """Read what was written at this revision. Raises ReleaseTooOld if it is a newer one, and cannot be read here."""
    try:
        yield
    except ValueError as error:  # of a document, or of a word such as a stage
        if not is_newer(revision):
            raise
        raise _too_old(_UNREADABLE, revision) from error


@contextmanager
def reading_tables(engine: Engine) -> Iterator[None]:
    """Read rows that do not say who wrote them. Raises ReleaseTooOld if one cannot be read, and a newer release may."""
    try:
        yield
    except ValueError as error:
        with engine.connect() as connection:
            revision = _newer_revision(connection)
        if revision is None:
            raise
        raise _too_old(_UNREADABLE, revision) from error


def knows_all(connection: Connection) -> bool:
    """Whether no newer release has added to the tables: what it added may name files and artifacts."""
    return _newer_revision(connection) is None


def require_all_known(connection: Connection) -> None:
    """Raise ReleaseTooOld unless this release knows all that may name files and artifacts."""
    revision = _newer_revision(connection)
    if revision is not None:
        detail = "a newer release has added to the tables, and may name files where this one does not look"
        raise _too_old(detail, revision, remedy="The newer release does it: its processes, or its `tracehouse gc`.")


def is_newer(revision: str) -> bool:
    """Whether a newer release knows the revision, and this one does not."""
    return revision > migrations.HEAD


def _newer_revision(connection: Connection) -> str | None:
    """Return the revision of the tables if it is a newer one."""
    revision = migrations.find_revision(connection)
    return revision if revision is not None and is_newer(revision) else None


def _too_old(detail: str, revision: str, **remedy: str) -> ReleaseTooOld:
    return ReleaseTooOld(detail, revision=revision, known=migrations.HEAD, **remedy)
