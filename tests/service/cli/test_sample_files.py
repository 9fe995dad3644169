"""`tracehouse trace --samples`: how many samples a file has is read off the names of its entries."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import typer

from service.cli.example_inputs import Uploads
from service.cli.sample_files import sample_file

ROW = np.ones((1, 4), np.float32)


def test_a_file_says_how_many_samples_it_has(tmp_path: Path) -> None:
    uploads = Uploads()
    np.savez(tmp_path / "a.npz", **{"0/ids": ROW, "0/mask": ROW, "1/ids": ROW, "1/mask": ROW})
    (tmp_path / "b.safetensors").write_bytes(safetensors.numpy.save({"0/ids": ROW}))

    assert sample_file(str(tmp_path / "a.npz"), uploads) == {"file": "a.npz", "count": 2}
    assert sample_file(str(tmp_path / "b.safetensors"), uploads) == {"file": "b.safetensors", "count": 1}
    assert [*uploads.files] == ["a.npz", "b.safetensors"]


@pytest.mark.parametrize("names", [["ids"], ["1/ids"], ["0/ids", "2/ids"]])
def test_samples_are_numbered_from_0(tmp_path: Path, names: list[str]) -> None:
    np.savez(tmp_path / "a.npz", **dict.fromkeys(names, ROW))

    with pytest.raises(typer.BadParameter, match="numbered from 0"):
        sample_file(str(tmp_path / "a.npz"), Uploads())


def test_a_file_that_is_none_of_both_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(b"PK no archive")

    with pytest.raises(typer.BadParameter, match="cannot be read"):
        sample_file(str(tmp_path / "a.npz"), Uploads())
    with pytest.raises(typer.BadParameter, match=r"no .npz, .safetensors, .png or .jpg file"):
        sample_file(str(tmp_path / "a.txt"), Uploads())


@pytest.mark.parametrize("name", ["a.npz", "a.safetensors"])
@pytest.mark.parametrize(
    "damage", [lambda data: data[:-20], lambda data: b"\xff" * 8 + data[8:]], ids=["cut", "begins anew"]
)
def test_a_damaged_file_is_refused(tmp_path: Path, name: str, damage: Callable[[bytes], bytes]) -> None:
    np.savez(tmp_path / "a.npz", **{"0/ids": ROW})
    (tmp_path / "a.safetensors").write_bytes(safetensors.numpy.save({"0/ids": ROW}))
    (tmp_path / name).write_bytes(damage((tmp_path / name).read_bytes()))

    with pytest.raises(typer.BadParameter, match=f"{name}' cannot be read"):
        sample_file(str(tmp_path / name), Uploads())


def test_a_picture_is_one_sample_and_is_not_opened(tmp_path: Path) -> None:
    uploads = Uploads()
    (tmp_path / "cat.JPG").write_bytes(b"no picture: the child that reads it says so")

    assert sample_file(str(tmp_path / "cat.JPG"), uploads) == {"file": "cat.JPG"}
    assert [*uploads.files] == ["cat.JPG"]
    with pytest.raises(typer.BadParameter, match="there is no file"):
        sample_file(str(tmp_path / "dog.png"), uploads)
