"""The zip directory at the end of an archive: read strictly, and written anew with other entries.

If two readers can take one file for two archives, it can show one contract and be another model. So only what torch's
writer and Python's zipfile write is accepted: the directory ends the file, nothing stands behind it or between its
parts, and no name is there twice. Nothing is ever decompressed.
"""

import os
import struct
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import BinaryIO

_END = struct.Struct("<4s4H2LH")
_LOCATOR = struct.Struct("<4sLQL")
_LARGE_END = struct.Struct("<4sQ2H2L4Q")
_ENTRY = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_NUMBER_MAX, _SIZE_MAX = 0xFFFF, 0xFFFFFFFF
# A model of ten thousand submodules has some tens of thousands of entries, of a hundred bytes each.
_DIRECTORY_MAX_BYTES = 64 * 2**20
_VERSION = 20
_FIRST_DAY = 0x21  # 1980-01-01: equal artifacts have equal bytes
_EXTRA = b"/extra/"
_PART_BYTES = 2**20


class NotAnArchive(Exception):
    """The file is no zip archive as torch writes it; the text says why."""


@dataclass(frozen=True)
class _Entry:
    name: bytes
    written: bytes  # the directory's own bytes for it
    stored: bool
    crc: int
    byte_size: int
    place: int


class ZipDirectory:
    """The directory of an open archive: which entries it has, and where they end. Raises NotAnArchive."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._size = file.seek(0, os.SEEK_END)
        self.start, size, number = self._bounds()
        self._entries = _entries(self._read(self.start, size), number)
        names = [entry.name for entry in self._entries]
        # torch finds an entry without regard to case, and where two match, whichever its search comes upon.
        if len({name.lower() for name in names}) < len(names):
            raise NotAnArchive("two of its entries have one name")
        root, slash, _ = names[0].partition(b"/") if names else (b"", b"", b"")
        if not slash:
            raise NotAnArchive("its entries are in no directory")
        self._root = root

    def with_extra(self, files: Mapping[str, memoryview]) -> list[bytes | memoryview]:
        """Return the bytes from `start` on of an archive with these extra files, in place of namesakes."""
        named = {self._extra(name): data for name, data in files.items()}
        entries = [entry.written for entry in self._entries if entry.name.lower() not in _lower(named)]
        parts: list[bytes | memoryview] = []
        place = self.start
        for name, data in named.items():
            local, central = _headers(name, data, place)
            parts += [local, data]
            place += len(local) + len(data)
            entries.append(central)
        return [*parts, *entries, _end_records(place, sum(map(len, entries)), len(entries))]

    def extra(self, name: str, most_bytes: int) -> bytes | None:
        """Return the extra file of that name; None where there is none."""
        wanted = self._extra(name)
        found = next((entry for entry in self._entries if entry.name == wanted), None)
        if found is None:
            return None
        if not found.stored or found.byte_size > most_bytes:
            raise NotAnArchive(f"{name} is compressed, or larger than {most_bytes} bytes")
        data = self._read(self._data_place(found), found.byte_size)
        if zlib.crc32(data) != found.crc:
            raise NotAnArchive(f"{name} is damaged")
        return data

    def check_bytes(self) -> None:
        """Raise NotAnArchive where an entry does not have its checksum: torch would load it all the same."""
        for entry in self._entries:
            if entry.stored and self._checksum(entry) != entry.crc:
                raise NotAnArchive(f"{_text(entry.name)} is damaged")

    def _checksum(self, entry: _Entry) -> int:
        place, left, found = self._data_place(entry), entry.byte_size, 0
        while left:
            part = self._read(place, min(left, _PART_BYTES))
            found = zlib.crc32(part, found)
            place, left = place + len(part), left - len(part)
        return found

    def _data_place(self, entry: _Entry) -> int:
        fields = _LOCAL.unpack(self._read(entry.place, _LOCAL.size))
        if fields[0] != b"PK\3\4":
            raise NotAnArchive(f"{_text(entry.name)} is not where the directory says")
        return int(entry.place + _LOCAL.size + fields[9] + fields[10])

    def _extra(self, name: str) -> bytes:
        return self._root + _EXTRA + name.encode()

    def _bounds(self) -> tuple[int, int, int]:
        """Return where the directory begins, its size in bytes, and its number of entries."""
        end_place = self._size - _END.size
        sign, *_, number, size, start, comment = _END.unpack(self._read(end_place, _END.size))
        if sign != b"PK\5\6" or comment:
            raise NotAnArchive("it does not end as a zip archive does")
        end_place, large = self._large_end(end_place)
        if large is not None:
            number, size, start = large
        if size > _DIRECTORY_MAX_BYTES:
            raise NotAnArchive(f"its directory has {size} bytes")
        if start + size != end_place:
            raise NotAnArchive("its directory is not at its end")
        return start, size, number

    def _large_end(self, end_place: int) -> tuple[int, tuple[int, int, int] | None]:
        """Return where the record for large archives begins, and its fields; torch writes one into each archive."""
        place = end_place - _LOCATOR.size
        if place < _LARGE_END.size:
            return end_place, None
        sign, disk, large_place, disks = _LOCATOR.unpack(self._read(place, _LOCATOR.size))
        if sign != b"PK\6\7":
            return end_place, None
        found = _LARGE_END.unpack(self._read(place - _LARGE_END.size, _LARGE_END.size))
        if (large_place, disk, disks) != (place - _LARGE_END.size, 0, 1) or found[:2] != (b"PK\6\6", 44):
            raise NotAnArchive("its end says two things")
        return large_place, (found[7], found[8], found[9])

    def _read(self, place: int, size: int) -> bytes:
        if place < 0 or place + size > self._size:
            raise NotAnArchive("it is too short")
        self._file.seek(place)
        return self._file.read(size)


def _entries(directory: bytes, number: int) -> list[_Entry]:
    found: list[_Entry] = []
    place = 0
    while place < len(directory):
        if place + _ENTRY.size > len(directory):
            raise NotAnArchive("its directory is cut")
        fields = _ENTRY.unpack_from(directory, place)
        sign, flags, method, crc, packed, byte_size = (fields[index] for index in (0, 3, 4, 7, 8, 9))
        name_place = place + _ENTRY.size
        end = name_place + sum(fields[10:13])
        if sign != b"PK\1\2" or end > len(directory):
            raise NotAnArchive("its directory is damaged")
        name = directory[name_place : name_place + fields[10]]
        stored = method == 0 and packed == byte_size and not flags & 1
        found.append(_Entry(name, directory[place:end], stored, crc, byte_size, fields[16]))
        place = end
    if len(found) != number:
        raise NotAnArchive("its directory has another number of entries than it says")
    return found


def _text(name: bytes) -> str:
    return name.decode("utf-8", "replace")


def _lower(names: Collection[bytes]) -> set[bytes]:
    return {name.lower() for name in names}


def _headers(name: bytes, data: memoryview, place: int) -> tuple[bytes, bytes]:
    """Return the header before an entry's bytes, and its entry in the directory."""
    common = _VERSION, 0, 0, 0, _FIRST_DAY, zlib.crc32(data), len(data), len(data), len(name), 0
    local = _LOCAL.pack(b"PK\3\4", *common) + name
    central = _ENTRY.pack(b"PK\1\2", _VERSION, *common, 0, 0, 0, 0, place) + name
    return local, central


def _end_records(place: int, size: int, number: int) -> bytes:
    large = _LARGE_END.pack(b"PK\6\6", 44, _VERSION, _VERSION, 0, 0, number, number, size, place)
    locator = _LOCATOR.pack(b"PK\6\7", 0, place + size, 1)
    number = min(number, _NUMBER_MAX)
    end = _END.pack(b"PK\5\6", 0, 0, number, number, min(size, _SIZE_MAX), min(place, _SIZE_MAX), 0)
    return large + locator + end
