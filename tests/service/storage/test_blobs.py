import hashlib
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import time

import pytest

from service.disk import sync_directory
from service.domain.errors import BlobMissing, ContentDamaged, DiskFull, FilesUnavailable, TooManyOpenFiles
from service.storage import local_blobs
from service.storage.blob_cache import CacheLimits
from service.storage.blob_places import open_blobs
from service.storage.blobs import Blobs
from service.storage.local_blobs import LocalBlobs
from tests.service.storage.conftest import BLOB_KINDS
from tracehouse.artifact.blob import BlobRef
from tracehouse.byte_units import MIB


@pytest.fixture(params=BLOB_KINDS)
def blob_kind(request) -> str:
    return request.param


@pytest.fixture
def blobs(blob_url: str, cache_limits: CacheLimits) -> Blobs:
    return open_blobs(blob_url, cache_limits)


@pytest.fixture
def local(tmp_path: Path) -> LocalBlobs:
    return LocalBlobs(tmp_path / "blobs")


@pytest.fixture
def change(blob_kind, blobs, request) -> Callable[[str, bytes], object]:
    """Put other bytes in the place of a blob, where no cache has it."""
    if blob_kind == "file":
        return lambda digest, data: blobs._path(digest).write_bytes(data)
    bucket = request.getfixturevalue("bucket")

    def change(digest: str, data: bytes) -> None:
        bucket.change(digest, data)
        blobs._cache.remove(digest)

    return change


def put(blobs: Blobs, data: bytes) -> BlobRef:
    with blobs.stage() as staged:
        staged.write(data)
        return staged.commit()


def files_under(path: Path) -> list[Path]:
    return [file for file in path.rglob("*") if file.is_file()]


def test_a_blob_is_its_bytes_under_their_digest(blobs):
    with blobs.stage() as staged:
        staged.write(b"ab")
        staged.write(memoryview(b"c"))
        blob = staged.commit()

    assert blob == BlobRef(digest="sha256:" + hashlib.sha256(b"abc").hexdigest(), byte_size=3)
    with blobs.open(blob.digest) as file:
        assert file.read() == b"abc"


def test_an_open_blob_has_a_descriptor_that_a_child_can_read(blobs):
    blob = put(blobs, b"for a child")

    with blobs.open(blob.digest) as file:
        assert subprocess.run(["cat"], stdin=file, capture_output=True, check=True).stdout == b"for a child"


def test_what_is_staged_can_be_read_before_and_after_it_is_committed_and_not_written(blobs):
    with blobs.stage() as staged:
        staged.write(b"for a child")
        staged.sync()
        with staged.open() as file:
            assert os.pread(file.fileno(), 100, 0) == b"for a child"
            assert staged.commit() == staged.blob
            assert os.pread(file.fileno(), 100, 0) == b"for a child"
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.write(file.fileno(), b"something else")


@pytest.mark.parametrize("kept", [0, 1, MIB - 1, MIB, 2 * MIB + 1, 3 * MIB])
def test_a_blob_that_was_cut_and_continued_has_the_digest_of_its_bytes(blobs, kept):
    written = os.urandom(3 * MIB)
    with blobs.stage() as staged:
        for start in range(0, len(written), MIB // 2):
            staged.write(written[start : start + MIB // 2])
        staged.cut(kept)
        staged.write(b"and more")
        staged.cut(kept + 4)
        staged.write(b"else")
        blob = staged.commit()

    expected = written[:kept] + b"and else"
    assert blob == BlobRef(digest=f"sha256:{hashlib.sha256(expected).hexdigest()}", byte_size=len(expected))
    with blobs.open(blob.digest) as file:
        assert file.read() == expected


def test_no_more_bytes_can_stay_than_there_are(blobs):
    with blobs.stage() as staged:
        staged.write(b"abc")
        with pytest.raises(ValueError, match="4 of 3 bytes"):
            staged.cut(4)


def test_the_same_bytes_are_kept_once(tmp_path, local):
    assert put(local, b"abc") == put(local, b"abc")

    assert len(files_under(tmp_path)) == 1


def test_the_same_bytes_can_be_put_at_the_same_time(local, at_once):
    # In a directory alone: moto's server answers 500 to some of several puts of one object at a time.
    put_all = at_once(*[lambda: put(local, b"abc" * 100_000)] * 6)

    assert len(set(put_all)) == 1
    with local.open(put_all[0].digest) as file:
        assert file.read() == b"abc" * 100_000


def test_what_is_discarded_leaves_nothing(tmp_path, local):
    staged = local.stage()
    staged.write(b"abc")
    assert staged.byte_size == 3

    staged.discard()

    assert files_under(tmp_path) == []


def test_an_error_on_the_way_discards_what_was_staged(tmp_path, local):
    with suppress(ConnectionResetError), local.stage() as staged:
        staged.write(b"abc")
        raise ConnectionResetError

    assert files_under(tmp_path) == []


@pytest.mark.parametrize("digest", ["sha256:" + "0" * 64, "sha256:../../secret", "secret", "", "sha256:" + "A" * 64])
def test_bytes_that_are_not_there_are_named(blobs, digest):
    with pytest.raises(BlobMissing) as raised:
        blobs.open(digest)

    assert raised.value.facts == {"digest": digest}


def test_a_process_killed_while_it_writes_leaves_no_blob(tmp_path, local):
    with subprocess.Popen(
        [sys.executable, "-c", WRITES_ON_AND_ON, tmp_path / "blobs"], stdout=subprocess.PIPE
    ) as writing:
        assert writing.stdout.readline() == b"begun\n"
        writing.kill()
    assert len(files_under(tmp_path)) == 1

    local.clear_staging()

    assert files_under(tmp_path) == []


WRITES_ON_AND_ON = """
import sys
from pathlib import Path
from service.storage.local_blobs import LocalBlobs

staged = LocalBlobs(Path(sys.argv[1])).stage()
for number in range(10**9):
    staged.write(bytes(65536))
    if number == 100:
        print("begun", flush=True)
"""


def test_what_another_process_is_writing_is_not_cleared(tmp_path, local):
    program = [sys.executable, "-c", WRITES_WHEN_TOLD, tmp_path / "blobs"]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writing:
        assert writing.stdout.readline() == b"begun\n"

        local.clear_staging()

        digest = writing.communicate(b"go on\n")[0].decode().strip()
    with local.open(digest) as file:
        assert file.read() == b"abc"


WRITES_WHEN_TOLD = """
import sys
from pathlib import Path
from service.storage.local_blobs import LocalBlobs

staged = LocalBlobs(Path(sys.argv[1])).stage()
staged.write(b"abc")
print("begun", flush=True)
sys.stdin.readline()
print(staged.commit().digest)
"""


def test_a_full_disk_is_said_and_leaves_nothing(tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", small]
    if subprocess.run(mount, stderr=subprocess.DEVNULL, check=False).returncode:
        pytest.skip("a small disk cannot be mounted here")
    try:
        blobs = LocalBlobs(small)

        with pytest.raises(DiskFull):
            put(blobs, bytes(2**20))

        assert put(blobs, b"small enough").byte_size == 12
    finally:
        subprocess.run(["umount", "--lazy", small], check=True)


def test_where_no_descriptor_is_left_it_is_said(local):
    blob = put(local, b"kept")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        with pytest.raises(TooManyOpenFiles):
            local.stage()
        with pytest.raises(TooManyOpenFiles):
            local.open(blob.digest)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_damaged_blob_is_not_opened_until_its_content_is_put_again(blobs, change, caplog):
    blob = put(blobs, b"right")
    with blobs.open(blob.digest) as file:
        assert file.read() == b"right"

    change(blob.digest, b"wight")  # one bit

    for _ in range(2):
        with pytest.raises(ContentDamaged) as raised:
            blobs.open(blob.digest)
        assert raised.value.facts == {"digest": blob.digest}
        assert blob.digest in raised.value.detail
    assert not blobs.holds(blob.digest)
    assert blobs.damaged == [blob.digest]
    assert put(blobs, b"right") == blob
    with blobs.open(blob.digest) as file:
        assert file.read() == b"right"
    assert blobs.holds(blob.digest)
    assert blobs.damaged == []
    [replaced] = [one for one in caplog.records if one.name.startswith("service")]
    assert (replaced.message, replaced.digest) == ("a damaged blob is replaced", blob.digest)


def test_a_damaged_blob_that_nobody_has_read_since_is_replaced_too(blobs, change):
    blob = put(blobs, b"right")
    change(blob.digest, b"wight")

    put(blobs, b"right")

    with blobs.open(blob.digest) as file:
        assert file.read() == b"right"


def test_a_large_blob_that_was_just_written_is_not_read_to_be_opened(blobs, monkeypatch):
    blob = put(blobs, bytes(9 * MIB))
    monkeypatch.setattr(hashlib, "file_digest", lambda *_: pytest.fail("it is read whole"))

    with blobs.open(blob.digest) as file:
        assert file.read(1) == b"\0"


def test_a_large_blob_that_was_just_written_is_read_as_soon_as_it_changed(blobs, change):
    large = bytes(9 * MIB)
    blob = put(blobs, large)

    change(blob.digest, b"1" + large[1:])

    with pytest.raises(ContentDamaged):
        blobs.open(blob.digest)


def test_a_large_blob_whose_place_is_taken_while_it_is_written_is_damaged(tmp_path, local, monkeypatch):
    """As by somebody who puts a copy of the directory back."""
    large = bytes(9 * MIB)

    def sync_and_replace(directory: Path) -> None:
        sync_directory(directory)
        for path in files_under(directory):
            other = tmp_path / "other"
            other.write_bytes(b"1" + large[1:])
            other.replace(path)

    with monkeypatch.context() as patched:
        patched.setattr(local_blobs, "sync_directory", sync_and_replace)
        blob = put(local, large)

    with pytest.raises(ContentDamaged):
        local.open(blob.digest)


def test_large_blobs_of_the_same_bytes_can_be_put_at_the_same_time(local, at_once):
    put_all = at_once(*[lambda: put(local, bytes(9 * MIB))] * 4)  # in a directory alone, as above

    assert len(set(put_all)) == 1
    with local.open(put_all[0].digest) as file:
        assert file.read() == bytes(9 * MIB)


@pytest.mark.parametrize(
    ("data", "changed"),
    [(b"cut short", b"cut"), (b"grew", b"grew" + bytes(6)), (b"emptied", b""), (b"", b"filled")],
)
def test_a_blob_that_was_cut_short_or_grew_is_damaged(blobs, change, data, changed):
    blob = put(blobs, data)
    change(blob.digest, changed)

    with pytest.raises(ContentDamaged):
        blobs.open(blob.digest)


def test_blobs_are_listed_with_their_sizes_until_they_are_removed(blobs):
    kept, removed = put(blobs, b"kept"), put(blobs, b"to be removed")
    assert {tuple(one) for one in blobs.files()} == {(kept.digest, 4), (removed.digest, 13)}
    assert abs(blobs.written_at(removed.digest).timestamp() - time()) < 60

    with blobs.open(removed.digest) as file:
        blobs.remove(removed.digest)
        assert file.read() == b"to be removed"
    blobs.remove(removed.digest)

    assert [one.digest for one in blobs.files()] == [kept.digest]
    assert blobs.written_at(removed.digest) is None
    assert not blobs.holds(removed.digest)


def test_whether_a_blob_is_new_is_told_to_whoever_counts(blobs):
    counted = []

    class Counting:
        take = hold_files = lambda *_: None
        count_kept = lambda _, byte_size: counted.append(byte_size)  # noqa: E731

    for _ in range(2):
        with blobs.stage(Counting()) as staged:
            staged.write(b"new once")
            staged.commit()

    assert counted == [8]


def test_a_shared_directory_that_is_not_mounted_any_more_is_said_and_no_blob_is_called_missing(tmp_path, local):
    blob = put(local, b"on the other machine")
    local.ping()
    (tmp_path / "blobs").rename(tmp_path / "unmounted")

    for asks in (local.ping, local.stage, lambda: local.open(blob.digest)):
        with pytest.raises(FilesUnavailable):
            asks()

    (tmp_path / "unmounted").rename(tmp_path / "blobs")
    local.ping()
    assert local.holds(blob.digest)
