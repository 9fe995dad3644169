import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from migrations.check import empty_schema

POSTGRES_URL = os.environ.get("TEST_POSTGRES_URL")


@pytest.fixture(params=["sqlite", "postgresql"] if POSTGRES_URL else ["sqlite"])
def database_url(request, tmp_path: Path) -> Iterator[str]:
    """Of an empty database. `TEST_POSTGRES_URL` names a PostgreSQL on which the same is tested."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'state' / 'tracehouse.db'}"
        return
    with empty_schema(POSTGRES_URL) as url:
        yield url
