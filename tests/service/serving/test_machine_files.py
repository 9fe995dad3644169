"""What was found of artifacts on this machine, kept in files that the disk may damage."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from service.domain.bitwise import BatchLevel, BitwiseRows, RowTrial
from service.serving.machine_files import MachineFiles
from tracehouse.tensors.tensor import Datatype, TensorSpec

DIGEST = "sha256:" + "a" * 64
ROW = TensorSpec(name="x", datatype=Datatype.FP32, shape=(1, 4))
FOUND = BitwiseRows(
    digest=DIGEST,
    machine="this one",
    torch="2.13.0",
    found_at=datetime.now(UTC),
    trials=[RowTrial(method="forward", inputs=[ROW], level=BatchLevel.BITWISE, rows=[1, 2, 4], calls=9, why="all did")],
)


def files(directory: Path) -> MachineFiles[BitwiseRows]:
    """Those of a service that has just started."""
    return MachineFiles(directory, BitwiseRows, machine="this one", torch_version="2.13.0")


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """The only file of the directory."""
    files(tmp_path).keep(FOUND)
    [file] = tmp_path.iterdir()
    return file


def test_what_was_found_is_there_after_the_next_start(tmp_path: Path, kept: Path) -> None:
    assert files(tmp_path).find(DIGEST) == FOUND
    assert files(tmp_path).take_up("sha256:" + "b" * 64) is None


def test_a_flipped_bit_is_never_gone_by(tmp_path: Path, kept: Path) -> None:
    """Such as one in a number of rows, with which answers would not have the same bytes."""
    said = kept.read_bytes()
    for place in range(len(said)):
        for bit in range(8):
            kept.write_bytes(said[:place] + bytes([said[place] ^ 1 << bit]) + said[place + 1 :])

            assert files(tmp_path).find(DIGEST) is None, said[place : place + 20]


def test_a_file_that_was_cut_or_is_of_an_earlier_release_is_found_anew(tmp_path: Path, kept: Path) -> None:
    said = kept.read_bytes()
    for other in (b"", said[:-1], said[:40], said + b"}", FOUND.model_dump_json().encode()):
        kept.write_bytes(other)
        assert files(tmp_path).find(DIGEST) is None

    files(tmp_path).keep(FOUND)
    assert files(tmp_path).find(DIGEST) == FOUND
