"""Tensors in a `.npz` file of numpy: a zip archive with a `.npy` file for each, which may be deflated.

What it unpacks to is known before any of it is unpacked. Source: PKWARE's APPNOTE 6.3, as far as numpy uses it.
"""

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tracehouse.errors import MalformedTensors
from tracehouse.tensors.npy import read_npy, write_npy
from tracehouse.tensors.raw import check_name
from tracehouse.tensors.tensor import Tensor

# Chosen: no method has as many inputs, and each costs some microseconds before it is known that it is none.
ENTRIES_MAX = 10_000
_SUFFIX = ".npy"
_STORED, _DEFLATED = 0, 8
_ENCRYPTED = 1
_UTF8 = 1 << 11
# A size or an offset that stands elsewhere, because it needs more bytes.
_ELSEWHERE = 0xFFFFFFFF
_VERSION = 20  # 2.0, what is needed to read it
_FIRST_DAY = (1 << 5) + 1  # of 1980, where the format's time begins

_END = struct.Struct("<4s4H2IH")
_ENTRY = struct.Struct("<4s6H3I5H2I")
_LOCAL = struct.Struct("<4s5H3I2H")


@dataclass(frozen=True, slots=True)
class NpzEntry:
    """One array in the archive: its name, its packed bytes, and what they unpack to."""

    name: str
    packed: memoryview
    is_deflated: bool
    checksum: int
    byte_size: int

    def read(self) -> Tensor:
        """Unpack the array. Raises MalformedTensors and InvalidTensor."""
        return read_npy(self.name, self.unpack())

    def unpack(self) -> memoryview:
        """Return the `.npy` file that it is. Raises MalformedTensors."""
        data = memoryview(self._inflate()) if self.is_deflated else self.packed
        if len(data) != self.byte_size or zlib.crc32(data) != self.checksum:
            raise _malformed(f"the array {self.name!r} is damaged")
        return data

    def _inflate(self) -> bytes:
        inflater = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            # One byte more shows an array that is longer than it is said to be.
            data = inflater.decompress(self.packed, self.byte_size + 1)
        except zlib.error as error:
            raise _malformed(f"the array {self.name!r} is damaged") from error
        if not inflater.eof or inflater.unused_data:
            raise _malformed(f"the array {self.name!r} is longer or shorter than the archive says")
        return data


def list_entries(file: memoryview) -> list[NpzEntry]:
    """Return the arrays of a whole archive, none of which is unpacked yet. Raises MalformedTensors."""
    count, start, end = _find_directory(file)
    entries = []
    for _ in range(count):
        entry, start = _read_entry(file, start, end)
        entries.append(entry)
    if start != end:
        raise _malformed("its directory is longer than its entries")
    return entries


def iter_npz_bytes(tensors: Sequence[tuple[Tensor, bool]]) -> Iterator[bytes]:
    """Yield the bytes of an archive of tensors, each with whether it is complex, part by part. It must have less than
    4 GiB; nothing in it is packed, and the same tensors give the same bytes."""
    directory, start = [], 0
    for tensor, is_complex in tensors:
        name, data = f"{tensor.name}{_SUFFIX}".encode(), write_npy(tensor, is_complex=is_complex)
        known = (_UTF8, _STORED, 0, _FIRST_DAY, zlib.crc32(data), len(data), len(data), len(name), 0)
        yield _LOCAL.pack(b"PK\x03\x04", _VERSION, *known)
        yield name
        yield data
        directory.append(_ENTRY.pack(b"PK\x01\x02", _VERSION, _VERSION, *known, 0, 0, 0, 0, start) + name)
        start += _LOCAL.size + len(name) + len(data)
    yield from directory
    count = len(directory)
    yield _END.pack(b"PK\x05\x06", 0, 0, count, count, sum(map(len, directory)), start, 0)


def _find_directory(file: memoryview) -> tuple[int, int, int]:
    """Return the number of entries, and where the directory begins and ends. Raises MalformedTensors."""
    end = len(file) - _END.size
    if end < 0:
        raise _malformed("it is too short")
    mark, disk, first_disk, here, count, byte_size, start, comment = _END.unpack_from(file, end)
    if mark != b"PK\x05\x06" or comment or disk or first_disk or here != count:
        raise _malformed("it does not end as an archive of one part does")
    if count > ENTRIES_MAX:
        raise _malformed(f"it has more than {ENTRIES_MAX} arrays, or more than 2 GiB")
    if start + byte_size != end:
        raise _malformed("its directory does not stand where it says")
    return count, start, end


def _read_entry(file: memoryview, start: int, end: int) -> tuple[NpzEntry, int]:
    """Return the entry of the directory that begins here, and where it ends. Raises MalformedTensors."""
    if start + _ENTRY.size > end:
        raise _malformed("its directory is cut off")
    fields = _ENTRY.unpack_from(file, start)
    mark, flags, method, checksum, packed_bytes, byte_size = fields[0], *fields[3:5], *fields[7:10]
    name_bytes, extra_bytes, comment_bytes, offset = *fields[10:13], fields[16]
    name_start = start + _ENTRY.size
    after = name_start + name_bytes + extra_bytes + comment_bytes
    if mark != b"PK\x01\x02" or after > end:
        raise _malformed("its directory is damaged")
    raw_name = bytes(file[name_start : name_start + name_bytes])
    name = _decode(raw_name, flags)
    if flags & _ENCRYPTED or method not in (_STORED, _DEFLATED):
        raise _malformed(f"the array {name!r} is encrypted, or packed in another way than deflate")
    if _ELSEWHERE in (packed_bytes, byte_size, offset):
        raise _malformed(f"the array {name!r} has more than 2 GiB: send it as safetensors")
    packed = _find_data(file, raw_name, offset, packed_bytes)
    return NpzEntry(name, packed, method == _DEFLATED, checksum, byte_size), after


def _decode(raw_name: bytes, flags: int) -> str:
    """Return the name of the array. Raises MalformedTensors."""
    try:
        name = raw_name.decode("utf-8" if flags & _UTF8 else "ascii")
    except UnicodeDecodeError as error:
        raise _malformed("the name of an entry is no text in UTF-8") from error
    check_name(name)
    if not name.endswith(_SUFFIX):
        raise _malformed(f"{name!r} is no {_SUFFIX} file")
    return name.removesuffix(_SUFFIX)


def _find_data(file: memoryview, raw_name: bytes, offset: int, packed_bytes: int) -> memoryview:
    """Return the packed bytes, which stand after a second head that must have the same name. Raises
    MalformedTensors."""
    if offset + _LOCAL.size > len(file):
        raise _malformed("an entry lies outside of it")
    fields = _LOCAL.unpack_from(file, offset)
    name_start = offset + _LOCAL.size
    start = name_start + fields[9] + fields[10]
    name = bytes(file[name_start : name_start + fields[9]])
    if fields[0] != b"PK\x03\x04" or name != raw_name or start + packed_bytes > len(file):
        raise _malformed("an entry lies elsewhere than its directory says")
    return file[start : start + packed_bytes]


def _malformed(reason: str) -> MalformedTensors:
    return MalformedTensors(
        f"the body is not a whole .npz file: {reason}",
        remedy="Send what `numpy.savez` or `numpy.savez_compressed` writes.",
    )
