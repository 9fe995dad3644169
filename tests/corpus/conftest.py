from collections.abc import Iterator

import pytest

from tests.corpus.specimen import as_in_the_service
from tests.loaded_models import objects_set_aside, pytest_configure

__all__ = ["objects_set_aside", "pytest_configure"]


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a model may turn in this process is turned back."""
    monkeypatch.setenv("CORPUS_GAIN", "1.0")
    with as_in_the_service():
        yield
