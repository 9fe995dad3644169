"""Archives are written into memory, and hold what the module holds."""

import io
import os
from collections.abc import Callable

import pytest
import torch

import tracehouse
from tracehouse.torchscript import archives


def _fail_to_copy(_: object) -> bytes:
    pytest.fail("torch copies the whole archive several times")


def _has_no_memory_files(*_: object) -> int:
    raise OSError("vm.memfd_noexec")


def test_an_archive_in_memory_has_the_modules_weights_and_leaves_no_file_open(monkeypatch: pytest.MonkeyPatch) -> None:
    module = torch.jit.trace(torch.nn.Linear(2, 3), torch.ones(1, 2))
    monkeypatch.setattr(type(module), "save_to_buffer", _fail_to_copy)
    open_before = os.listdir("/proc/self/fd")

    with archives.written_into_memory():
        archive = archives.save(module)
    loaded = torch.jit.load(io.BytesIO(archive))
    del archive

    assert torch.equal(loaded.weight, module.weight)
    assert len(os.listdir("/proc/self/fd")) == len(open_before)


@pytest.mark.parametrize("forbid", [lambda patch: patch.delattr(os, "memfd_create"),
                                    lambda patch: patch.setattr(os, "memfd_create", _has_no_memory_files)])  # fmt: skip
def test_where_there_are_no_files_in_memory_torch_makes_the_bytes(
    forbid: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = torch.jit.trace(torch.nn.Linear(2, 3), torch.ones(1, 2))
    forbid(monkeypatch)

    with archives.written_into_memory():
        archive = archives.save(module)

    assert torch.equal(torch.jit.load(io.BytesIO(archive)).weight, module.weight)


def test_a_check_in_this_process_does_not_copy_the_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (torch.jit.ScriptModule, torch.jit.RecursiveScriptModule):
        monkeypatch.setattr(kind, "save_to_buffer", _fail_to_copy, raising=False)

    report = tracehouse.check(torch.nn.Linear(2, 3).eval(), torch.ones(1, 2))

    assert report.verdict == "verified"
