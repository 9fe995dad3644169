"""Blobs on S3: a server process of moto's stands in for it, and is killed, paused, filled and damaged."""

import asyncio
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from service.domain.errors import BlobMissing, ContentDamaged, FilesUnavailable
from service.storage import object_store
from service.storage.blob_cache import CacheLimits
from service.storage.blob_places import open_blobs
from service.storage.blobs import Blobs
from service.storage.object_store import BlobUrlUnusable
from tests.conftest import keep, wait_until
from tests.s3_server import Bucket, key_of
from tracehouse.byte_units import MIB

LARGE_BYTES = 17 * MIB + 5  # three parts


@pytest.fixture
def new_blobs(bucket: Bucket, tmp_path: Path) -> Callable[..., Blobs]:
    """Blobs in the bucket, as a service of that name has them, with a cache of its own."""

    def new_blobs(name: str = "here", max_bytes: int = 2**30) -> Blobs:
        return open_blobs(bucket.url, CacheLimits(directory=tmp_path / name, max_bytes=max_bytes))

    return new_blobs


@pytest.fixture
def blobs(new_blobs) -> Blobs:
    return new_blobs()


def read(blobs: Blobs, digest: str) -> bytes:
    with blobs.open(digest) as file:
        return file.read()


def cached(directory: Path) -> set[str]:
    return {f"sha256:{path.name}" for path in (directory / "sha256").glob("*/*")}


def answers(blobs: Blobs) -> bool:
    try:
        blobs.ping()
    except FilesUnavailable:
        return False
    return True


def test_a_blob_is_in_the_bucket_before_it_is_committed_and_others_read_it(new_blobs, bucket):
    here, elsewhere = new_blobs(), new_blobs("elsewhere")
    with here.stage() as staged:
        staged.write(b"shared")
        assert bucket.blobs() == {}
        blob = staged.commit()

    assert bucket.blobs() == {blob.digest: b"shared"}
    assert read(elsewhere, blob.digest) == b"shared"


def test_a_large_blob_goes_in_parts_and_is_not_seen_before_it_is_committed(new_blobs, bucket):
    data = os.urandom(LARGE_BYTES)
    with new_blobs().stage() as staged:
        staged.write(data)
        staged.sync()
        assert bucket.blobs() == {}
        assert bucket.uploads() == [key_of(staged.blob.digest)]
        blob = staged.commit()

    assert bucket.uploads() == []
    assert bucket.server.client.head_object(Bucket=bucket.name, Key=key_of(blob.digest))["ETag"].endswith('-3"')
    assert read(new_blobs("elsewhere"), blob.digest) == data


def test_what_is_written_after_a_large_upload_began_is_uploaded_too(blobs, new_blobs, bucket):
    with blobs.stage() as staged:
        staged.write(bytes(LARGE_BYTES))
        staged.sync()
        staged.write(b"more")
        blob = staged.commit()

    assert read(new_blobs("elsewhere"), blob.digest) == bytes(LARGE_BYTES) + b"more"
    assert bucket.uploads() == []


def test_a_large_upload_that_is_discarded_leaves_nothing(blobs, bucket):
    with blobs.stage() as staged:
        staged.write(bytes(LARGE_BYTES))
        staged.sync()

    assert (bucket.uploads(), bucket.blobs()) == ([], {})


KILLED = """
import os, sys
from pathlib import Path
from service.storage.blob_cache import CacheLimits
from service.storage.blob_places import open_blobs

staged = open_blobs(sys.argv[1], CacheLimits(Path(sys.argv[2]), 2**30)).stage()
staged.write(bytes(int(sys.argv[3])))
staged.sync()
os.kill(os.getpid(), 9)
"""


def test_what_a_killed_process_had_uploaded_is_no_blob_and_is_removed(blobs, bucket, tmp_path, monkeypatch):
    killed = [sys.executable, "-c", KILLED, bucket.url, str(tmp_path / "here"), str(LARGE_BYTES)]
    assert subprocess.run(killed, check=False).returncode == -9
    assert len(bucket.uploads()) == 1
    assert [*blobs.files()] == []

    monkeypatch.setattr("service.storage.remote_blobs._UPLOAD_MAX", timedelta(days=36500))
    blobs.clear_uploads()
    assert len(bucket.uploads()) == 1  # another process may be at it
    monkeypatch.undo()
    for name, value in bucket.server.environment.items():
        monkeypatch.setenv(name, value)
    blobs.clear_uploads()  # moto says of each that it began in 2010
    blobs.clear_staging()

    assert bucket.uploads() == []
    assert [*(tmp_path / "here" / "tmp").iterdir()] == []


def test_a_blob_is_read_from_the_disk_once_it_is_there(blobs, bucket):
    blob = keep(blobs, b"read often")
    bucket.server.kill()

    assert read(blobs, blob.digest) == b"read often"


def test_a_damaged_file_of_the_cache_is_fetched_again(blobs, tmp_path, caplog):
    blob = keep(blobs, b"right")
    [path] = (tmp_path / "here" / "sha256").glob("*/*")
    for damaged in (b"wight", b"", b"right and more"):
        path.write_bytes(damaged)

        assert read(blobs, blob.digest) == b"right"

    assert blobs.damaged == []
    assert caplog.messages.count("a damaged file of the cache is fetched again") == 3


def test_a_flipped_bit_in_the_bucket_is_found_and_never_read(new_blobs, bucket, tmp_path):
    small, large = (keep(new_blobs(), data) for data in (b"right", os.urandom(LARGE_BYTES)))
    elsewhere = new_blobs("elsewhere")
    for blob in (small, large):
        bucket.flip(blob.digest)

        with pytest.raises(ContentDamaged) as raised:
            elsewhere.open(blob.digest)
        assert raised.value.facts == {"digest": blob.digest}

    assert elsewhere.damaged == [small.digest, large.digest]
    assert cached(tmp_path / "elsewhere") == set()
    assert [*(tmp_path / "elsewhere" / "tmp").iterdir()] == []


def test_a_truncated_object_is_damaged_until_its_content_is_put_again_anywhere(new_blobs, bucket):
    here, elsewhere = new_blobs(), new_blobs("elsewhere")
    data = os.urandom(LARGE_BYTES)
    blob = keep(here, data)
    bucket.change(blob.digest, data[: 10 * MIB])
    with pytest.raises(ContentDamaged):
        elsewhere.open(blob.digest)

    keep(here, data)

    assert read(elsewhere, blob.digest) == data
    assert elsewhere.damaged == []


def test_what_is_missing_in_the_bucket_is_missing(new_blobs, bucket):
    blob = keep(new_blobs(), b"gone")
    bucket.remove(blob.digest)

    with pytest.raises(BlobMissing):
        new_blobs("elsewhere").open(blob.digest)


def test_of_many_that_want_a_blob_at_once_each_gets_all_of_it(new_blobs, tmp_path):
    data = os.urandom(LARGE_BYTES)
    blob = keep(new_blobs(), data)
    elsewhere = new_blobs("elsewhere")
    with ThreadPoolExecutor(8) as threads:
        found = [*threads.map(lambda _: read(elsewhere, blob.digest), range(8))]

    assert [hashlib.sha256(one).digest() for one in found] == [hashlib.sha256(data).digest()] * 8
    assert cached(tmp_path / "elsewhere") == {blob.digest}


WRITES = """
import sys
from pathlib import Path
from service.storage.blob_cache import CacheLimits
from service.storage.blob_places import open_blobs

blobs = open_blobs(sys.argv[1], CacheLimits(Path(sys.argv[2]), 2**30))
for _ in range(3):
    with blobs.stage() as staged:
        staged.write(bytes(int(sys.argv[3])))
        print(staged.commit().digest)
"""


@pytest.mark.parametrize("byte_size", [1000, LARGE_BYTES])
def test_processes_write_the_same_content_at_once(new_blobs, bucket, tmp_path, byte_size):
    def write(name: str) -> subprocess.Popen[str]:
        program = [sys.executable, "-c", WRITES, bucket.url, str(tmp_path / name), str(byte_size)]
        return subprocess.Popen(program, stdout=subprocess.PIPE, text=True)

    writers = [write(name) for name in ("first", "second", "second")]  # two of them share a cache
    written = {line for one in writers for line in one.communicate()[0].split()}

    assert [one.returncode for one in writers] == [0, 0, 0]
    [digest] = written
    assert read(new_blobs(), digest) == bytes(byte_size)
    assert bucket.uploads() == []


def test_the_cache_keeps_what_was_used_last(new_blobs, tmp_path):
    blobs = new_blobs(max_bytes=3 * MIB)
    first, second, third = (keep(blobs, bytes([number]) * MIB) for number in range(3))
    blobs.open(first.digest).close()

    fourth = keep(blobs, bytes([3]) * MIB)

    assert cached(tmp_path / "here") == {first.digest, third.digest, fourth.digest}
    assert read(blobs, second.digest) == bytes([1]) * MIB


def test_a_held_file_is_not_evicted_until_the_last_process_has_closed_it(new_blobs, tmp_path):
    blobs = new_blobs(max_bytes=2 * MIB)
    held = keep(blobs, bytes(MIB))
    with ExitStack() as stack:
        file = stack.enter_context(blobs.open(held.digest))
        # A child has the descriptor longer than whoever opened it.
        runner = stack.enter_context(subprocess.Popen(["cat", "-"], stdin=subprocess.PIPE, pass_fds=[file.fileno()]))
        file.close()
        for number in range(1, 5):
            keep(blobs, bytes([number]) * MIB)
            assert held.digest in cached(tmp_path / "here")
            assert sum(path.stat().st_size for path in (tmp_path / "here" / "sha256").glob("*/*")) <= 2 * MIB
        runner.communicate(b"")

    for number in range(5, 8):
        keep(blobs, bytes([number]) * MIB)
    assert held.digest not in cached(tmp_path / "here")
    assert read(blobs, held.digest) == bytes(MIB)


def test_a_blob_larger_than_the_cache_is_read_all_the_same_and_does_not_stay(new_blobs, tmp_path):
    blobs = new_blobs(max_bytes=MIB)
    large = keep(blobs, bytes(2 * MIB))

    with blobs.open(large.digest) as file:
        assert file.read() == bytes(2 * MIB)
    keep(blobs, b"small")

    assert large.digest not in cached(tmp_path / "here")


def test_files_that_others_put_into_a_shared_cache_count(new_blobs, tmp_path, monkeypatch):
    monkeypatch.setattr("service.storage.blob_cache._COUNTED_AFTER", 1)
    first, second = new_blobs(max_bytes=3 * MIB), new_blobs(max_bytes=3 * MIB)
    for number in range(6):
        keep((first, second)[number % 2], bytes([number]) * MIB)

    assert len(cached(tmp_path / "here")) == 3


def test_while_the_server_is_down_that_is_said_at_once_and_all_goes_on_when_it_is_back(new_blobs, bucket, caplog):
    caplog.set_level("INFO")
    blobs = new_blobs()
    blob = keep(blobs, b"kept")
    elsewhere = new_blobs("elsewhere")
    blobs.ping()
    bucket.server.kill()

    for asks in (lambda: elsewhere.open(blob.digest), lambda: keep(blobs, b"new"), lambda: [*blobs.files()]):
        with pytest.raises(FilesUnavailable) as raised:
            asks()
        assert raised.value.facts == {"retry_after_s": 5}
    assert not answers(blobs)
    assert read(blobs, blob.digest) == b"kept"

    bucket.server.start()
    wait_until(lambda: answers(blobs))
    wait_until(lambda: answers(elsewhere))
    assert read(elsewhere, blob.digest) == b"kept"
    assert read(elsewhere, keep(blobs, b"new").digest) == b"new"
    assert "the store of the files answers again" in caplog.messages


def test_a_large_upload_that_the_server_does_not_survive_is_no_blob(blobs, bucket):
    with blobs.stage() as staged:
        staged.write(bytes(LARGE_BYTES))
        staged.sync()
        bucket.server.kill()
        with pytest.raises(FilesUnavailable):
            staged.commit()
    bucket.server.start()

    assert bucket.blobs() == {}
    wait_until(lambda: answers(blobs))
    keep(blobs, bytes(LARGE_BYTES))
    assert len(bucket.blobs()) == 1


def test_a_server_that_takes_connections_and_does_not_answer_is_given_up(bucket, new_blobs, monkeypatch):
    monkeypatch.setitem(object_store._S3_OPTIONS["config_kwargs"], "read_timeout", 0.2)
    blobs = new_blobs()
    blob = keep(new_blobs("elsewhere"), b"kept")
    bucket.server.pause()
    try:
        with pytest.raises(FilesUnavailable):
            blobs.open(blob.digest)
        began = monotonic()
        with ThreadPoolExecutor(20) as threads:  # one of them asks, and the others do not wait for that
            assert not any(threads.map(lambda _: answers(blobs), range(200)))
        assert monotonic() - began < 60
    finally:
        bucket.server.resume()
    wait_until(lambda: answers(blobs))
    assert read(blobs, blob.digest) == b"kept"


def test_calls_that_wait_for_a_silent_server_are_given_up_long_before_their_own_time_is_over(
    bucket, new_blobs, monkeypatch
):
    monkeypatch.setitem(object_store._S3_OPTIONS["config_kwargs"], "read_timeout", 3600)
    monkeypatch.setattr(object_store, "_TRANSFERS_MAX", 3)
    blobs = new_blobs()
    large = blobs.stage()
    large.write(bytes(LARGE_BYTES))
    digests = [keep(new_blobs("elsewhere"), bytes([number])).digest for number in range(4)]  # more than go at a time
    calls = [partial(blobs.open, digest) for digest in digests]
    calls += [large.sync, lambda: keep(blobs, b"new"), lambda: blobs.remove(digests[0]), lambda: [*blobs.files()]]
    bucket.server.pause()
    try:
        with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(len(calls)) as threads:
            for name in ("_SILENT_S", "_PROBE_S"):
                patch.setattr(object_store, name, 0.3)
            assert [type(one.exception()) for one in [threads.submit(call) for call in calls]] == (
                [FilesUnavailable] * len(calls)
            )
    finally:
        bucket.server.resume()
    large.discard()
    wait_until(lambda: answers(blobs))

    assert [read(blobs, digest) for digest in digests[1:]] == [b"\x01", b"\x02", b"\x03"]


def test_a_call_that_takes_long_goes_on_while_the_server_answers_others(new_blobs, monkeypatch):
    for name in ("_SILENT_S", "_LOOK_S"):
        monkeypatch.setattr(object_store, name, 0.02)
    blob = keep(new_blobs("elsewhere"), b"slow")
    blobs = new_blobs()
    get_file = blobs._store._files._get_file

    async def slow(*arguments: Any, **options: Any) -> None:
        await asyncio.sleep(1)
        await get_file(*arguments, **options)

    blobs._store._files._get_file = slow

    assert read(blobs, blob.digest) == b"slow"


def test_a_bucket_that_is_not_there_is_said_and_no_blob_is_called_missing(bucket, tmp_path):
    asks = (lambda one: one.open("sha256:" + "0" * 64), lambda one: keep(one, b"new"), lambda one: one.ping())
    for ask in asks:
        blobs = open_blobs("s3://no-such-bucket/files", CacheLimits(directory=tmp_path / "cache", max_bytes=2**30))
        with pytest.raises(FilesUnavailable, match="there is no such bucket"):
            ask(blobs)


def test_credentials_come_from_a_file_too_and_without_any_that_is_said(new_blobs, tmp_path, monkeypatch):
    secret = os.environ["AWS_SECRET_ACCESS_KEY"]
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(FilesUnavailable, match="NoCredentialsError"):
        new_blobs().ping()

    (tmp_path / "secret").write_text(f"[default]\naws_access_key_id = tests\naws_secret_access_key = {secret}\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "secret"))

    blobs = new_blobs()
    assert read(blobs, keep(blobs, b"by a file").digest) == b"by a file"


@pytest.mark.parametrize("url", ["s3://name:secret@bucket/files", "nonsense://bucket", "s3://"])
def test_an_url_that_cannot_be_used_is_refused_without_being_repeated(url, tmp_path):
    with pytest.raises(BlobUrlUnusable) as raised:
        open_blobs(url, CacheLimits(directory=tmp_path, max_bytes=1))

    assert "secret" not in str(raised.value)


def test_two_services_share_one_store(bucket, tmp_path, new_request, database_url):
    """What one names the other does not sweep, and what one removes the other does not have."""
    from service.domain.retention import RetentionRules
    from service.storage.database import Store

    def store(name: str) -> Store:
        return Store.open(database_url, bucket.url, CacheLimits(directory=tmp_path / name, max_bytes=2**30))

    here, elsewhere = store("here"), store("elsewhere")
    named, orphan = keep(here.blobs, b"named"), keep(here.blobs, b"orphan")
    here.trace_requests.add(new_request().model_copy(update={"files": {"net.py": named}}))
    assert read(elsewhere.blobs, orphan.digest) == b"orphan"
    assert elsewhere.retention.sweep(RetentionRules(files_s=0)).files == 0  # they are young

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("service.storage.retention._LEAST_AGE", timedelta(seconds=1.1))
        wait_until(lambda: elsewhere.retention.sweep(RetentionRules(files_s=0)).files == 1)

    assert bucket.blobs() == {named.digest: b"named"}
    assert read(elsewhere.blobs, named.digest) == b"named"
    with pytest.raises(BlobMissing):
        elsewhere.blobs.open(orphan.digest)
    for one in (here, elsewhere):
        one.close()


def test_the_time_of_a_blob_is_that_of_its_last_writer(blobs, bucket):
    blob = keep(blobs, b"again and again")
    first = blobs.written_at(blob.digest)
    assert first is not None
    wait_until(lambda: datetime.now(UTC) > first + timedelta(seconds=2))

    keep(blobs, b"again and again")

    assert blobs.written_at(blob.digest) > first


def test_secrets_are_not_logged(blobs, bucket, caplog):
    from service import log

    log.configure("DEBUG")
    try:
        with caplog.at_level("DEBUG"):
            keep(blobs, b"logged?")
            bucket.server.kill()
            with pytest.raises(FilesUnavailable) as raised:
                keep(blobs, b"another")
    finally:
        log.configure("WARNING")
    said: Any = caplog.text + repr(raised.value.__cause__) + raised.value.detail
    assert bucket.server.environment["AWS_SECRET_ACCESS_KEY"] not in said
    assert "Authorization" not in said
    assert "Signature" not in said
