"""The file that the tracing child is given for its archive."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import pytest
import torch

from service.sandbox.memory_file import empty, open_memory_file
from tests.submissions import spec, tensor
from tests.workers.conftest import Told

Run = Callable[..., Told]
X = tensor([[1.0, 2.0, 3.0, 4.0]])
TRACED = spec("linear", example_inputs=[X])
SCRIPTED = spec("linear", example_inputs=[X], mode="script")


@pytest.fixture
def file() -> Iterator[int]:
    file = os.memfd_create("archive")
    yield file
    os.close(file)


def read(file: int) -> bytes:
    return os.pread(file, os.fstat(file).st_size, 0)


def folder(archive: bytes) -> str:
    [name] = {name.partition("/")[0] for name in ZipFile(BytesIO(archive)).namelist()}
    return name


@pytest.mark.parametrize("submitted", [TRACED, SCRIPTED], ids=["traced", "scripted"])
def test_the_archive_is_written_into_the_file_and_not_sent(run: Run, file: int, submitted: dict[str, object]) -> None:
    sent = torch.jit.load(BytesIO(run(submitted).files["archive"]))

    told = run(submitted, archive_file=file)

    written = torch.jit.load(BytesIO(read(file)))
    assert told.files["archive"] == b""
    assert torch.equal(written(torch.ones(1, 4)), sent(torch.ones(1, 4)))
    assert written.code == sent.code


def test_an_archives_folder_has_one_name_whichever_descriptor_the_file_has(run: Run, file: int) -> None:
    other = os.dup(file)
    run(TRACED, archive_file=file)
    first = folder(read(file))
    run(TRACED, archive_file=other)
    os.close(other)

    assert folder(read(file)) == first


def test_a_file_that_its_parent_emptied_cannot_be_filled_again() -> None:
    with ExitStack() as stack:
        file = open_memory_file(stack, "archive")
        assert file is not None
        os.write(file, b"an archive")

        empty(file)

        assert os.fstat(file).st_size == 0
        with pytest.raises(PermissionError):
            os.pwrite(file, b"more", 0)


def test_an_archive_is_sent_where_the_file_cannot_be_opened_to_write(run: Run, tmp_path: Path) -> None:
    unwritable = os.open(tmp_path, os.O_RDONLY)
    told = run(TRACED, archive_file=unwritable)

    assert torch.jit.load(BytesIO(told.files["archive"]))(torch.ones(1, 4)).shape == (1, 3)
    os.close(unwritable)
