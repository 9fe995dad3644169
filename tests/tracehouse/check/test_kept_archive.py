"""What is checked of an archive that was made before."""

import io
import zipfile
from typing import Any

import pytest
import torch

from tracehouse.check.kept_archive import keep_archive
from tracehouse.errors import ArchiveUnusable
from tracehouse.findings.trace_check import TorchCheck
from tracehouse.torchscript.candidate import Candidate
from tracehouse.torchscript.trace import TraceResult

X = torch.ones(2, 4)


def candidate(module: torch.nn.Module) -> Candidate:
    traced: Any = torch.jit.trace(module.eval(), X)
    return Candidate(TraceResult(traced, traced.save_to_buffer(), [], TorchCheck(ran=False)), "traced")


def linear(seed: int) -> torch.nn.Module:
    torch.manual_seed(seed)
    return torch.nn.Linear(4, 2)


def with_extra(archive: bytes) -> io.BytesIO:
    data = io.BytesIO(archive)
    with zipfile.ZipFile(data, "a") as file:
        folder = file.namelist()[0].partition("/")[0]
        file.writestr(f"{folder}/extra/contract.json", "{}")
    return data


def test_a_new_trace_that_gives_the_same_archive_is_checked_itself() -> None:
    made = candidate(linear(0))

    assert keep_archive(made, with_extra(made.traced.archive), "cpu") is made


def test_what_the_archive_holds_is_checked_where_a_new_trace_gives_another() -> None:
    made, kept = candidate(linear(0)), candidate(linear(1))

    checked = keep_archive(made, with_extra(kept.traced.archive), "cpu")

    assert torch.equal(checked.traced.module(X), kept.traced.module(X))
    assert not torch.equal(checked.traced.module(X), made.traced.module(X))


def test_an_archive_that_cannot_be_loaded_is_named() -> None:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as file:
        file.writestr("archive/data.pkl", "nothing")

    with pytest.raises(ArchiveUnusable, match="cannot be loaded"):
        keep_archive(candidate(linear(0)), data, "cpu")
