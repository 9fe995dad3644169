import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from service.storage.file_digests import FileDigests
from tests.conftest import wait_until
from tracehouse.artifact.blob import BlobRef
from tracehouse.byte_units import MIB


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The digests that are computed, in their order."""
    computed: list[str] = []
    compute = hashlib.file_digest

    def record(file, kind):
        computed.append(compute(file, kind).hexdigest())
        file.seek(0)
        return compute(file, kind)

    monkeypatch.setattr(hashlib, "file_digest", record)
    return computed


def name(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def settled(digests: FileDigests, path: Path, hashed: list[str]) -> None:
    """Wait until the file is so old that its digest is remembered."""

    def is_remembered() -> bool:
        before = len(hashed)
        with path.open("rb") as file:
            digests.digest_of(file)
        return len(hashed) == before

    wait_until(is_remembered)
    hashed.clear()


def test_an_unchanged_file_is_hashed_once_and_a_changed_one_again(tmp_path, hashed):
    digests, path = FileDigests(), tmp_path / "file"
    path.write_bytes(b"first")
    settled(digests, path, hashed)

    for _ in range(3):
        with path.open("rb") as file:
            assert digests.digest_of(file) == name(b"first")
            assert file.read() == b"first"
    assert hashed == []

    path.write_bytes(b"other")
    with path.open("rb") as file:
        assert digests.digest_of(file) == name(b"other")
    assert len(hashed) == 1


def test_a_change_that_hides_its_time_is_seen(tmp_path, hashed):
    digests, path = FileDigests(), tmp_path / "file"
    path.write_bytes(b"first")
    settled(digests, path, hashed)
    before = path.stat()

    path.write_bytes(b"other")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert path.stat().st_mtime_ns == before.st_mtime_ns
    with path.open("rb") as file:
        assert digests.digest_of(file) == name(b"other")


def test_a_file_that_takes_the_place_of_another_is_hashed(tmp_path, hashed):
    digests, path, other = FileDigests(), tmp_path / "file", tmp_path / "other"
    path.write_bytes(b"first")
    settled(digests, path, hashed)
    other.write_bytes(b"other")

    os.replace(other, path)

    with path.open("rb") as file:
        assert digests.digest_of(file) == name(b"other")


def test_a_file_that_was_just_written_is_hashed_each_time(tmp_path, hashed, monkeypatch):
    """A change within one tick of the kernel's clock leaves the identity as it is."""
    digests, path = FileDigests(), tmp_path / "file"
    path.write_bytes(b"first")
    written_ns = path.stat().st_ctime_ns
    monkeypatch.setattr(time, "time_ns", lambda: written_ns + 1)

    for _ in range(2):
        with path.open("rb") as file:
            assert digests.digest_of(file) == name(b"first")

    assert len(hashed) == 2


LARGE = bytes(9 * MIB)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where `move` moves a file that was written some time ago."""
    return tmp_path / "place"


@pytest.fixture
def move(tmp_path: Path, place: Path) -> Callable[..., FileDigests]:
    """Move a large file to its place, and call `then` at once; return the digests, which were told of it."""

    def move(then: Callable[[], object] = lambda: None, byte_size: int = len(LARGE)) -> FileDigests:
        digests, path = FileDigests(), tmp_path / "written"
        path.write_bytes(LARGE)
        os.utime(path, (1, 1))
        with digests.moving(path, BlobRef(digest=name(LARGE), byte_size=byte_size)):
            path.rename(place)
            then()
        return digests

    return move


def digest_at(place: Path, digests: FileDigests) -> str:
    with place.open("rb") as file:
        return digests.digest_of(file)


def test_what_the_writer_of_a_large_file_computed_is_not_computed_again_until_the_file_changes(place, move, hashed):
    digests = move()

    assert digest_at(place, digests) == name(LARGE)
    assert hashed == []

    before = place.stat()
    with place.open("r+b") as file:
        file.write(b"1")
    os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert digest_at(place, digests) == name(b"1" + LARGE[1:])


def test_a_file_that_takes_the_place_of_one_that_was_just_moved_is_hashed(place, move, tmp_path):
    def replace() -> None:
        other = tmp_path / "other"
        other.write_bytes(b"1" + LARGE[1:])
        other.rename(place)

    assert digest_at(place, move(then=replace)) == name(b"1" + LARGE[1:])


def test_a_file_that_is_written_to_while_it_is_moved_is_hashed(place, move):
    def write() -> None:
        with place.open("r+b") as file:
            file.write(b"1")

    assert digest_at(place, move(then=write)) == name(b"1" + LARGE[1:])


def test_a_file_of_another_size_than_its_writer_counted_is_hashed(place, move, hashed):
    assert digest_at(place, move(byte_size=len(LARGE) + 1)) == name(LARGE)
    assert len(hashed) == 1


def test_a_move_does_not_wait_for_a_clock_that_was_set_back(place, move, hashed, monkeypatch):
    """Nor for that of another machine, which has the files."""
    an_hour_ago = time.time_ns() - 3_600_000_000_000
    monkeypatch.setattr(time, "time_ns", lambda: an_hour_ago)
    monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail(f"it sleeps {seconds} s"))

    assert digest_at(place, move()) == name(LARGE)
    assert len(hashed) == 1


def test_threads_that_ask_at_once_hash_once(tmp_path, hashed, at_once):
    digests, path = FileDigests(), tmp_path / "file"
    path.write_bytes(b"first")
    settled(FileDigests(), path, hashed)

    def ask() -> str:
        with path.open("rb") as file:
            return digests.digest_of(file)

    assert set(at_once(*[ask] * 6)) == {name(b"first")}
    assert len(hashed) == 1
