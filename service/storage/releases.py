"""Releases side by side: what a newer one has written may be more than this one can read."""

from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import ValidationError

import migrations
from service.domain.errors import ReleaseTooOld


@contextmanager
def reading(revision: str) -> Iterator[None]:
    """Read what was written at this revision. Raises ReleaseTooOld if it is a newer one, and cannot be read here."""
    try:
        yield
    except ValidationError as error:
        if revision <= migrations.HEAD:
            raise
        detail = "a newer release wrote this, and this process cannot read it"
        raise ReleaseTooOld(detail, revision=revision, known=migrations.HEAD) from error
