"""What is written to a path: a file, whole; and never something else in place of a pipe, a device or a link."""

import os
import stat
import threading
from pathlib import Path

import pytest

from tracehouse.client.whole_file import check_writable, written_whole


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    arrived: list[bytes] = []
    reader = threading.Thread(target=lambda: arrived.append(pipe.read_bytes()), daemon=True)
    reader.start()

    with written_whole(pipe) as file:
        file.write(b"archive")

    assert stat.S_ISFIFO(pipe.stat().st_mode)
    reader.join()
    assert arrived == [b"archive"]


def test_a_link_stays_and_its_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "net-3.pt").write_bytes(b"before")
    link = tmp_path / "latest.pt"
    link.symlink_to("net-3.pt")

    with written_whole(link) as file:
        file.write(b"archive")

    assert link.is_symlink()
    assert (tmp_path / "net-3.pt").read_bytes() == b"archive"


def test_two_that_write_one_file_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    target = tmp_path / "net.pt"

    with written_whole(target) as first, written_whole(target) as second:
        first.write(b"one")
        second.write(b"two")

    assert target.read_bytes() == b"one"
    assert [*tmp_path.iterdir()] == [target]


def test_links_in_a_circle_stay_and_are_told_as_such(tmp_path: Path) -> None:
    for name, target in [("self", "self"), ("one", "two"), ("two", "one")]:
        (tmp_path / name).symlink_to(target)
    for name in ("self", "one"):
        with pytest.raises(OSError, match="a link that leads back to itself"):
            check_writable(tmp_path / name)
        with pytest.raises(OSError, match="a link that leads back to itself"), written_whole(tmp_path / name):
            pass

    assert all(path.is_symlink() for path in tmp_path.iterdir())


def test_what_raises_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    target = tmp_path / "net.pt"
    target.write_bytes(b"before")

    def write_half() -> None:
        with written_whole(target) as file:
            file.write(b"half")
            raise OSError("full")

    with pytest.raises(OSError, match="full"):
        write_half()

    assert target.read_bytes() == b"before"
    assert [*tmp_path.iterdir()] == [target]


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught, written_whole(tmp_path / "none" / "net.pt"):
        pass

    assert caught.value.filename == str(tmp_path / "none")


def test_a_file_that_could_be_written_is_tried_and_nothing_stays(tmp_path: Path) -> None:
    (tmp_path / "net.pt").write_bytes(b"before")
    os.mkfifo(tmp_path / "pipe")
    before = {*tmp_path.iterdir()}
    for name in ("net.pt", "new.pt", "pipe"):
        check_writable(tmp_path / name)

    assert {*tmp_path.iterdir()} == before
    assert (tmp_path / "net.pt").read_bytes() == b"before"


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("/proc/self/nothing", FileNotFoundError),
        ("none/net.pt", FileNotFoundError),
        ("leads/nowhere", FileNotFoundError),
        (".", IsADirectoryError),
        ("n" * 300, OSError),
    ],
)
def test_a_file_that_cannot_be_written_is_told_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, error: type[OSError]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "leads").symlink_to("none")

    with pytest.raises(error):
        check_writable(Path(path))
