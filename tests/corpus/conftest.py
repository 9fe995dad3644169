import warnings
from collections.abc import Iterator

import pytest
import torch

from tests.loaded_models import objects_set_aside, pytest_configure

__all__ = ["objects_set_aside", "pytest_configure"]


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a model may turn in this process is turned back."""
    monkeypatch.setenv("CORPUS_GAIN", "1.0")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    torch.set_num_threads(threads)
