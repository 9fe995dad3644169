"""Blame: which error of the domain a library's error is."""

import pytest

from tracehouse.eager.error_translation import translate_errors
from tracehouse.errors import LimitExceeded, SourceRaised


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
    with pytest.raises(LimitExceeded) as raised, translate_errors(SourceRaised, "importing raised"):
        raise RuntimeError(text)
    assert raised.value.facts["limit"] == "memory"


@pytest.mark.parametrize(
    "error",
    [
        PermissionError(13, "Permission denied", "/etc/shadow"),
        PermissionError(1, "Operation not permitted"),
        FileNotFoundError(2, "No such file or directory", "/home/me/weights.pt"),
        OSError(-3, "Temporary failure in name resolution"),
    ],
    ids=["a file", "a socket or a process", "a file that is not there", "a host"],
)
def test_what_the_sandbox_refuses_is_explained(error: OSError) -> None:
    with pytest.raises(SourceRaised) as raised, translate_errors(SourceRaised, "importing raised"):
        raise error
    assert "cannot use the machine's files" in raised.value.facts["remedy"]


def test_a_file_missing_from_the_source_is_not_laid_to_the_sandbox() -> None:
    with pytest.raises(SourceRaised) as raised, translate_errors(SourceRaised, "importing raised"):
        raise FileNotFoundError(2, "No such file or directory", "vocabulary.txt")
    assert "remedy" not in raised.value.facts


def test_a_remedy_is_found_behind_a_librarys_own_error() -> None:
    error = ImportError("could not import")
    error.__cause__ = RuntimeError("operator torchvision::nms does not exist")

    with pytest.raises(SourceRaised) as raised, translate_errors(SourceRaised, "importing raised"):
        raise error
    assert "torchvision_operators" in raised.value.facts["remedy"]
