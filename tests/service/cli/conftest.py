"""What a command changes in its process, which is the tests' here."""

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _umask_as_it_was() -> Iterator[None]:
    umask = os.umask(0o022)
    yield
    os.umask(umask)
