"""Printouts in one file: an index on the first line, then the printouts, so that one can be read alone.

The process that wrote the file ran submitted code and may have forged it. So reading takes bounded time and memory,
whatever the file contains, and a file in any other format is refused.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from io import BytesIO
from itertools import accumulate, islice
from typing import Annotated, Any, BinaryIO, NamedTuple, get_args

import orjson
from pydantic import FailFast, TypeAdapter

from tracehouse.artifact.manifest import Printout, PrintoutKind
from tracehouse.byte_units import MIB
from tracehouse.errors import PrintoutNotFound, PrintoutsUnreadable
from tracehouse.tensors.json_text import has_more, levels

# The limits of a file. Chosen: with them, whatever a forged file has is read in bounded time and memory.
INDEX_MAX_BYTES = MIB
INDEX_MAX_ENTRIES = 20_000
PRINTOUT_MAX_BYTES = 4 * MIB

# A node takes at least a hundred bytes and has five lists and objects. So the largest printout has about this many.
_CONTAINERS_MAX = 200_000
# A graph's node has the most members: eleven. pydantic takes about a kilobyte for each unknown member.
_MEMBERS_MAX = 20
# How many methods and submodules an error lists.
_LISTED_MAX = 100


class PrintoutEntry(NamedTuple):
    """One entry of the index: a printout's names, and how many bytes its JSON takes.

    The JSON begins where that of the entry before it ends.
    """

    kind: PrintoutKind
    method: str
    submodule: str
    byte_size: int

    @classmethod
    def parse(cls, given: Any) -> "PrintoutEntry":
        """Raises ValueError. Between two entries, other threads may go on: pydantic, given all, would hold them up."""
        if type(given) is not dict or given.keys() != _ENTRY_MEMBERS:
            raise ValueError("an entry is no object, or has other members")
        kind, method, submodule, size = map(given.get, cls._fields)
        if type(kind) is not str or kind not in _KINDS or type(method) is not str or type(submodule) is not str:
            raise ValueError("an entry has names of another kind")
        if type(size) is not int or not 0 <= size <= PRINTOUT_MAX_BYTES:
            raise ValueError("an entry's size is out of bounds")
        return cls(**given)


_ENTRY_MEMBERS = {*PrintoutEntry._fields}
_KINDS = frozenset(get_args(PrintoutKind))

_list = TypeAdapter(Annotated[list[Printout], FailFast()])


def write(printouts: Iterable[Printout]) -> bytes:
    """Return the file's bytes. If the index has no room for all printouts, the last ones are left out."""
    return write_encoded((printout, encode(printout)) for printout in printouts)


def encode(printout: Printout) -> bytes:
    """Return a printout's JSON, as it stands in the file."""
    return printout.model_dump_json().encode()


def write_encoded(printouts: Iterable[tuple[Printout, bytes]]) -> bytes:
    """Return the file's bytes as `write` does, for printouts with their JSON."""
    index: list[bytes] = []
    written: list[bytes] = []
    room = INDEX_MAX_BYTES - len("[]\n")
    for printout, text in islice(printouts, INDEX_MAX_ENTRIES):
        entry = PrintoutEntry(
            kind=printout.kind, method=printout.method, submodule=printout.submodule, byte_size=len(text)
        )
        line = orjson.dumps(entry._asdict())
        room -= len(line) + len(",")
        if room < 0:
            break
        index.append(line)
        written.append(text)
    return b"[" + b",".join(index) + b"]\n" + b"".join(written)


@dataclass(frozen=True, slots=True)
class EncodedPrintout:
    """A printout's JSON, which may be forged. `digest` names the artifact in errors."""

    text: bytes
    digest: str

    def decode(self) -> Printout:
        """Raises PrintoutsUnreadable."""
        try:
            return Printout.model_validate(_parse(self.text))
        except ValueError as error:
            raise _unreadable(self.digest) from error


class Printouts:
    """The printouts in an open file. `digest` names the artifact in errors. Raises PrintoutsUnreadable."""

    def __init__(self, file: BinaryIO, digest: str) -> None:
        self._file = file
        self._digest = digest
        try:
            self.entries = self._read_index()
        except ValueError as error:
            raise _unreadable(digest) from error

    def read(self, kind: PrintoutKind, method: str, submodule: str) -> Printout:
        """Return one printout. Raises PrintoutNotFound or PrintoutsUnreadable."""
        return self.read_encoded(kind, method, submodule).decode()

    def read_encoded(self, kind: PrintoutKind, method: str, submodule: str) -> EncodedPrintout:
        """Return one printout as it stands in the file. Raises PrintoutNotFound or PrintoutsUnreadable."""
        ends = accumulate(entry.byte_size for entry in self.entries)
        for entry, end in zip(self.entries, ends, strict=True):
            if (entry.kind, entry.method, entry.submodule) == (kind, method, submodule):
                return self._read(self._start + end - entry.byte_size, entry.byte_size)
        of_kind = [entry for entry in self.entries if entry.kind == kind]
        raise PrintoutNotFound(
            f"there is no {kind} of {method[:80]!r} of {submodule[:80] or 'the model'!r}",
            kind=kind,
            methods=sorted({entry.method for entry in of_kind})[:_LISTED_MAX],
            submodules=sorted({entry.submodule for entry in of_kind})[:_LISTED_MAX],
        )

    def _read_index(self) -> list[PrintoutEntry]:
        line = self._file.readline(INDEX_MAX_BYTES)
        if not line.endswith(b"\n"):
            # An earlier release wrote a JSON list without an index, on one line. If the list is longer than may be
            # read, this is only its beginning, which is not valid JSON.
            listed = line + self._file.read(PRINTOUT_MAX_BYTES - len(line))
            self._file = BytesIO(write(_list.validate_python(_parse(listed))))
            line = self._file.readline()
        self._start = len(line)
        return _parse_index(line)

    def _read(self, start: int, byte_size: int) -> EncodedPrintout:
        self._file.seek(start)
        whole = self._file.read(byte_size)
        if len(whole) < byte_size:
            raise _unreadable(self._digest)
        return EncodedPrintout(whole, self._digest)


def _parse_index(line: bytes) -> list[PrintoutEntry]:
    """Raises ValueError."""
    index = _parse(line)
    if type(index) is not list or len(index) > INDEX_MAX_ENTRIES:
        raise ValueError("the index is no list, or has too many entries")
    return [PrintoutEntry.parse(each) for each in index]


def _unreadable(digest: str) -> PrintoutsUnreadable:
    return PrintoutsUnreadable("the printouts of this artifact cannot be read", digest=digest)


def _parse(text: bytes) -> Any:
    """Parse JSON. Raises ValueError for objects with so many members that pydantic's errors would take gigabytes."""
    if has_more(text, b"[{", _CONTAINERS_MAX):
        raise ValueError("there are too many lists and objects")
    value = orjson.loads(text)
    if any(len(each) > _MEMBERS_MAX for objects, _ in levels(value) for each in objects):
        raise ValueError("an object has too many members")
    return value
