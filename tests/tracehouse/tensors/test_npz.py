"""Archives that numpy writes are read; hostile ones cost no more than their own bytes, and are refused."""

import struct
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from io import BytesIO
from typing import Any

import numpy as np
import pytest

from tracehouse.errors import InvalidTensor, MalformedTensors
from tracehouse.tensors.npz import ENTRIES_MAX, iter_npz_bytes, list_entries
from tracehouse.tensors.tensor import Datatype, Tensor

X = np.arange(6, dtype=np.float32).reshape(2, 3)
MASK = np.array([True, False])


def npz(write: Callable[..., None] = np.savez, **arrays: Any) -> bytes:
    file = BytesIO()
    write(file, **arrays)
    return file.getvalue()


def read(file: bytes) -> dict[str, Tensor]:
    return {entry.name: entry.read() for entry in list_entries(memoryview(file))}


def zipped(*members: tuple[str, bytes], **options: Any) -> bytes:
    file = BytesIO()
    with zipfile.ZipFile(file, "w", **options) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return file.getvalue()


def npy(array: np.ndarray) -> bytes:
    file = BytesIO()
    np.save(file, array)
    return file.getvalue()


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
def test_what_numpy_writes_is_read(write: Callable[..., None]) -> None:
    found = read(npz(write, **{"x": X, "pair.0": MASK, "größe/a": np.zeros((0, 3))}))

    assert {name: (one.datatype, one.shape) for name, one in found.items()} == {
        "x": (Datatype.FP32, (2, 3)), "pair.0": (Datatype.BOOL, (2,)), "größe/a": (Datatype.FP64, (0, 3)),
    }  # fmt: skip
    assert bytes(found["x"].data) == X.tobytes()
    assert bytes(found["pair.0"].data) == MASK.tobytes()


def test_numpy_reads_what_is_written() -> None:
    tensors = [Tensor("x", Datatype.FP32, (2, 3), X.tobytes()), Tensor("größe.0", Datatype.BOOL, (2,), MASK.tobytes())]

    file = b"".join(iter_npz_bytes([(one, False) for one in tensors]))

    with zipfile.ZipFile(BytesIO(file)) as archive:
        assert archive.testzip() is None
    found = np.load(BytesIO(file))
    assert found.files == ["x", "größe.0"]
    np.testing.assert_array_equal(found["x"], X)
    np.testing.assert_array_equal(found["größe.0"], MASK)
    assert {name: bytes(one.data) for name, one in read(file).items()} == {one.name: bytes(one.data) for one in tensors}


def test_an_archive_of_nothing_has_nothing() -> None:
    assert read(npz()) == {}
    assert np.load(BytesIO(b"".join(iter_npz_bytes([])))).files == []


def test_what_is_not_packed_is_read_without_a_copy() -> None:
    file = memoryview(npz(x=X))

    data = list_entries(file)[0].read().data

    assert isinstance(data, memoryview)
    assert data.obj is file.obj


def test_what_it_unpacks_to_is_known_before() -> None:
    """A bomb says how large it is, or is found out when it is one byte larger than it says."""
    bomb = npz(np.savez_compressed, x=np.zeros(10_000_000, np.uint8))

    entries = list_entries(memoryview(bomb))

    assert len(bomb) < 20_000
    assert sum(entry.byte_size for entry in entries) > 10_000_000


def patched(file: bytes, at: int, *values: int) -> bytes:
    """The first entry of the directory with other 32-bit fields from this place on."""
    start = file.index(b"PK\x01\x02") + at
    return file[:start] + struct.pack(f"<{len(values)}I", *values) + file[start + 4 * len(values) :]


def test_a_bomb_that_lies_about_its_size_is_not_unpacked_beyond_it() -> None:
    lying = patched(npz(np.savez_compressed, x=np.zeros(20_000_000, np.uint8)), 24, 100)

    tracemalloc.start()
    try:
        with pytest.raises(MalformedTensors):
            read(lying)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 1_000_000


def with_end(file: bytes, **changes: int) -> bytes:
    names = ["disk", "first_disk", "here", "count", "byte_size", "start", "comment"]
    fields = dict(zip(names, struct.unpack("<4H2IH", file[-18:]), strict=True)) | changes
    return file[:-18] + struct.pack("<4H2IH", *fields.values())


PLAIN, PACKED = npz(x=X), npz(np.savez_compressed, x=X)


@pytest.mark.parametrize(
    "file",
    [
        b"",
        b"PK\x05\x06",
        bytes(22),
        npy(X),
        PLAIN[:-1],
        PLAIN[:-30],
        PLAIN[10:],
        PLAIN + b"\0",
        b"before" + PLAIN,
        with_end(PLAIN, comment=1),
        with_end(PLAIN, disk=1),
        with_end(PLAIN, count=2, here=2),
        with_end(PLAIN, count=0, here=0),
        with_end(PLAIN, start=0),
        with_end(PLAIN, byte_size=2**32 - 1),
        patched(PLAIN, 16, 12345),  # the checksum
        patched(PLAIN, 20, 10, 10),  # the sizes
        patched(PLAIN, 20, 2**31, 2**31),
        patched(PLAIN, 20, 2**32 - 1, 2**32 - 1),
        patched(PLAIN, 24, 10**6),
        patched(PLAIN, 42, 1),  # the offset
        patched(PLAIN, 42, 2**31),
        patched(PACKED, 20, 10),
        patched(PACKED, 24, 10),
        patched(PACKED, 24, 10**6),
        PLAIN.replace(b"x.npy", b"y.npy", 1),
        zipped(("x.txt", b"text")),
        zipped(("x.npy", b"text")),
        zipped(("x.npy", npy(X)), compression=zipfile.ZIP_BZIP2),
        zipped(("x.npy", npy(X)), compression=zipfile.ZIP_LZMA),
        zipped(("n" * 2000 + ".npy", npy(X))),
        PLAIN.replace(b"x.npy", b"\xff.npy"),
    ],
)
def test_what_is_no_whole_archive_is_refused(file: bytes) -> None:
    with pytest.raises((MalformedTensors, InvalidTensor)):
        read(file)


def test_an_encrypted_array_is_refused() -> None:
    start = PLAIN.index(b"PK\x01\x02") + 8

    with pytest.raises(MalformedTensors, match="encrypted"):
        read(PLAIN[:start] + b"\x01" + PLAIN[start + 1 :])


def test_a_directory_of_very_many_arrays_is_not_read() -> None:
    entry = struct.pack("<4s6H3I5H2I", b"PK\x01\x02", *[0] * 16)
    count = ENTRIES_MAX + 1
    end = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, count, count, len(entry) * count, 0, 0)

    with pytest.raises(MalformedTensors, match=str(ENTRIES_MAX)):
        list_entries(memoryview(entry * count + end))


def test_an_array_of_objects_in_an_archive_is_refused() -> None:
    file = BytesIO()
    np.savez(file, x=np.array([{}], object))

    with pytest.raises(MalformedTensors):
        read(file.getvalue())


def test_every_flipped_byte_of_a_packed_archive_is_noticed_or_changes_nothing_that_counts() -> None:
    for at in range(len(PACKED)):
        changed = bytearray(PACKED)
        changed[at] ^= 0x55
        try:
            found = read(bytes(changed))
        except (MalformedTensors, InvalidTensor):
            continue
        assert all((one.datatype, one.shape, bytes(one.data)) == (Datatype.FP32, (2, 3), X.tobytes())
                   for one in found.values())  # fmt: skip


def test_the_checksum_is_that_of_the_unpacked_bytes() -> None:
    entry = list_entries(memoryview(PACKED))[0]

    assert entry.checksum == zlib.crc32(npy(X))
