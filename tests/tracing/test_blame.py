"""Blame: which error of the domain a library's error is."""

import pytest

from service.domain.errors import LimitExceeded, SourceRaised
from workers.tracing.blame import blamed


@pytest.mark.parametrize(
    "text",
    [
        "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory",
        "[enforce fail at alloc_cpu.cpp:127] data. ",
        "Could not allocate bytes object!",
        "std::bad_alloc",
    ],
)
def test_what_torchs_allocators_say_is_a_limit(text: str) -> None:
    with pytest.raises(LimitExceeded) as raised, blamed(SourceRaised, "importing raised"):
        raise RuntimeError(text)
    assert raised.value.facts["limit"] == "memory"


def test_a_remedy_is_found_behind_a_librarys_own_error() -> None:
    error = ImportError("could not import")
    error.__cause__ = RuntimeError("operator torchvision::nms does not exist")

    with pytest.raises(SourceRaised) as raised, blamed(SourceRaised, "importing raised"):
        raise error
    assert "torchvision_operators" in raised.value.facts["remedy"]
