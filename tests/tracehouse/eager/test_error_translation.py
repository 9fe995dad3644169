"""Blame: which error of the domain a library's error is."""

from collections.abc import Callable

import pytest
import torch

from tracehouse.eager.error_translation import translate_errors
from tracehouse.errors import LimitExceeded, ModelRaised, SourceRaised


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


X = torch.ones(2, 4)
WELL_KNOWN: dict[str, tuple[Callable[[], object], str]] = {
    "a linear layer of another size": (lambda: torch.nn.Linear(5, 3)(X), "shape"),
    "a convolution without a batch": (lambda: torch.nn.Conv2d(3, 3, 3)(X), "shape"),
    "a convolution of other channels": (lambda: torch.nn.Conv2d(3, 3, 3)(torch.ones(1, 1, 5, 5)), "shape"),
    "sizes that do not broadcast": (lambda: X + torch.ones(3), "shape"),
    "a cat of other ranks": (lambda: torch.cat([X, torch.ones(3)]), "shape"),
    "a cat of other sizes": (lambda: torch.cat([X, torch.ones(2, 3)]), "shape"),
    "an impossible reshape": (lambda: X.reshape(3, -1), "shape"),
    "a batch norm of another rank": (lambda: torch.nn.BatchNorm2d(4)(X), "shape"),
    "floats as ids": (lambda: torch.nn.Embedding(5, 3)(X), "INT64"),
    "ids past the vocabulary": (lambda: torch.nn.Embedding(5, 3)(torch.tensor([9])), "high"),
    "an index past the end": (lambda: X[:, 9], "smaller"),
    "weights of another datatype": (lambda: torch.nn.Linear(4, 3).double()(X), "datatype"),
    "a convolution of another datatype": (lambda: torch.nn.Conv1d(2, 3, 3).half()(X), "datatype"),
    "a view of what is not contiguous": (lambda: X.t().view(8), "reshape"),
    "a gradient of nothing": (lambda: torch.autograd.grad(X.sum(), X), "enable_grad"),
    "numpy of a parameter": (torch.nn.Linear(4, 3).weight.numpy, "detach"),
    "a parameter changed in place": (lambda: torch.nn.Linear(4, 3).weight.add_(1), "in place"),
    "a tensor in place of a parameter": (lambda: setattr(torch.nn.Linear(4, 3), "weight", X), "buffer"),
    "a tensor in place of a number": (lambda: X.topk(X), "int:3"),  # type: ignore[arg-type]
    "a call of None": (lambda: getattr(torch.nn.Linear(4, 3, bias=False), "bias")(X), "None"),  # noqa: B009
}


@pytest.mark.parametrize("case", WELL_KNOWN)
def test_what_torch_often_says_has_a_remedy_of_its_own(case: str) -> None:
    call, word = WELL_KNOWN[case]
    with pytest.raises(ModelRaised) as raised, translate_errors(ModelRaised, "forward raised"):
        call()
    assert word in raised.value.facts["remedy"]
