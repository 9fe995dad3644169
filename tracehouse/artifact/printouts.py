"""Printouts in one file: an index on its first line, and then one after the other, so that one is read by itself.

The process that wrote them has run the model's code and may have made up anything: reading takes little of time and
memory whatever the file holds, and what is not as it is written here is refused.
"""

from collections.abc import Iterable
from io import BytesIO
from itertools import accumulate, islice
from typing import Annotated, Any, BinaryIO

import orjson
from pydantic import FailFast, Field, TypeAdapter

from tracehouse.artifact.manifest import Printout, PrintoutKind
from tracehouse.byte_units import MIB
from tracehouse.errors import PrintoutNotFound, PrintoutsUnreadable
from tracehouse.frozen import Frozen
from tracehouse.tensors.json_text import has_more_containers, levels

INDEX_MAX_BYTES = MIB
INDEX_MAX_ENTRIES = 20_000
PRINTOUT_MAX_BYTES = 4 * MIB

# A node has five of them, and takes a hundred bytes at the least.
_CONTAINERS_MAX = 200_000
# Of one object; none of ours has half as many. pydantic keeps about a kilobyte for each member that it does not know.
_MEMBERS_MAX = 20
_NAMED_MAX = 100


class PrintoutEntry(Frozen):
    """One printout of the index, and how long its JSON is. It begins where that of the entry before it ends."""

    kind: PrintoutKind
    method: str
    submodule: str
    byte_size: int = Field(ge=0, le=PRINTOUT_MAX_BYTES)


_index = TypeAdapter(Annotated[list[PrintoutEntry], FailFast(), Field(max_length=INDEX_MAX_ENTRIES)])
_list = TypeAdapter(Annotated[list[Printout], FailFast()])


def write(printouts: Iterable[Printout]) -> bytes:
    """What `Printouts` reads. The last ones, for which the index has no room, are left out."""
    return write_encoded((printout, encoded(printout)) for printout in printouts)


def encoded(printout: Printout) -> bytes:
    """As it stands in the file."""
    return printout.model_dump_json().encode()


def write_encoded(printouts: Iterable[tuple[Printout, bytes]]) -> bytes:
    """`write`, of those that are encoded already."""
    index: list[bytes] = []
    written: list[bytes] = []
    room = INDEX_MAX_BYTES - len("[]\n")
    for printout, whole in islice(printouts, INDEX_MAX_ENTRIES):
        entry = PrintoutEntry(
            kind=printout.kind, method=printout.method, submodule=printout.submodule, byte_size=len(whole)
        )
        line = entry.model_dump_json().encode()
        room -= len(line) + len(",")
        if room < 0:
            break
        index.append(line)
        written.append(whole)
    return b"[" + b",".join(index) + b"]\n" + b"".join(written)


class Printouts:
    """Those in a file. Raises PrintoutsUnreadable, and names the artifact then."""

    def __init__(self, file: BinaryIO, digest: str) -> None:
        self._file = file
        self._digest = digest
        try:
            self.entries = self._read_index()
        except ValueError as error:
            raise self._unreadable() from error

    def read(self, kind: PrintoutKind, method: str, submodule: str) -> Printout:
        """Also raises PrintoutNotFound."""
        ends = accumulate(entry.byte_size for entry in self.entries)
        for entry, end in zip(self.entries, ends, strict=True):
            if (entry.kind, entry.method, entry.submodule) == (kind, method, submodule):
                return self._read(self._start + end - entry.byte_size, entry.byte_size)
        of_kind = [entry for entry in self.entries if entry.kind == kind]
        raise PrintoutNotFound(
            f"there is no {kind} of {method[:80]!r} of {submodule[:80] or 'the model'!r}",
            kind=kind,
            methods=sorted({entry.method for entry in of_kind})[:_NAMED_MAX],
            submodules=sorted({entry.submodule for entry in of_kind})[:_NAMED_MAX],
        )

    def _read_index(self) -> list[PrintoutEntry]:
        line = self._file.readline(INDEX_MAX_BYTES)
        if not line.endswith(b"\n"):
            # Artifacts that were made before there was an index have a list of printouts, which is one line.
            # Of a longer one than may be read this is the beginning, which is no JSON.
            listed = line + self._file.read(PRINTOUT_MAX_BYTES - len(line))
            self._file = BytesIO(write(_list.validate_python(_parsed(listed))))
            line = self._file.readline()
        self._start = len(line)
        return _index.validate_python(_parsed(line))

    def _read(self, start: int, byte_size: int) -> Printout:
        self._file.seek(start)
        whole = self._file.read(byte_size)
        if len(whole) < byte_size:
            raise self._unreadable()
        try:
            return Printout.model_validate(_parsed(whole))
        except ValueError as error:
            raise self._unreadable() from error

    def _unreadable(self) -> PrintoutsUnreadable:
        return PrintoutsUnreadable("the printouts of this artifact cannot be read", digest=self._digest)


def _parsed(text: bytes) -> Any:
    """With so few members in each object that pydantic cannot find many mistakes. Raises ValueError."""
    if has_more_containers(text, _CONTAINERS_MAX):
        raise ValueError("there are too many lists and objects")
    value = orjson.loads(text)
    if any(len(each) > _MEMBERS_MAX for objects, _ in levels(value) for each in objects):
        raise ValueError("an object has too many members")
    return value
