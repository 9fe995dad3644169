"""Machine files: what was found of artifacts on this kind of machine with these versions, kept for the next start."""

import hashlib
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import ValidationError

from service.domain.machine_finding import MachineFinding

# Files that are kept, each of about two kilobytes; the oldest go.
_KEPT_MAX = 10_000

Found = TypeVar("Found", bound=MachineFinding)

_log = logging.getLogger(__name__)


class MachineFiles(Generic[Found]):
    """A directory with one file for each artifact, kind of machine, version of torch, and versions of whatever else is
    `used` for what is found, in one text. Any thread may ask it.

    A file has the digest of what it says: one that the disk has damaged is found anew, and never gone by.
    """

    def __init__(self, directory: Path, kind: type[Found], *, machine: str, torch_version: str, used: str = "") -> None:
        self.machine = machine
        self.torch_version = torch_version
        self._directory = directory
        self._kind = kind
        self._used = used
        self._known: dict[str, Found] = {}

    def remembered(self, digest: str) -> Found | None:
        """Return what was found of the artifact, if it was kept or taken up since the start."""
        return self._known.get(digest)

    def take_up(self, digest: str) -> Found | None:
        """Return what was found of the artifact, which is remembered from now on."""
        if (found := self.find(digest)) is not None:
            self._remember(found)
        return found

    def find(self, digest: str) -> Found | None:
        """Return what was found of the artifact. It may read a file."""
        known = self._known.get(digest)
        return known if known is not None else self._read(digest)

    def keep(self, found: Found) -> None:
        self._remember(found)
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            file = self._file(found.digest)
            written = file.with_suffix(".tmp")
            written.write_bytes(_sealed(found.model_dump_json().encode()))
            written.replace(file)
            self._remove_oldest()
        except OSError as error:  # it is found anew after the next start
            about = {"directory": self._directory.name, "error": str(error)}
            _log.warning("what was found of an artifact could not be kept", extra=about)

    def _remember(self, found: Found) -> None:
        self._known[found.digest] = found
        if len(self._known) > _KEPT_MAX:
            del self._known[next(iter(self._known))]

    def _read(self, digest: str) -> Found | None:
        """Return what a file has; None if there is none that can be read."""
        with suppress(OSError, ValidationError):
            data = self._file(digest).read_bytes()
            said = data[_HEAD_BYTES:-1]
            if data != _sealed(said):
                return None
            found = self._kind.model_validate_json(said)
            if (found.digest, found.machine, found.torch) == (digest, self.machine, self.torch_version):
                return found
        return None

    def _file(self, digest: str) -> Path:
        key = "\n".join([digest, self.machine, self.torch_version, *filter(None, [self._used])])
        return self._directory / f"{hashlib.sha256(key.encode()).hexdigest()}.json"

    def _remove_oldest(self) -> None:
        with os.scandir(self._directory) as entries:
            files = [(entry.stat().st_mtime, entry.path) for entry in entries if entry.name.endswith(".json")]
        for _, path in sorted(files)[: max(0, len(files) - _KEPT_MAX)]:
            Path(path).unlink(missing_ok=True)


class FilesByThreads(Generic[Found]):
    """The files of each number of threads that compute: with another one, it is another kind of machine."""

    def __init__(
        self, directory: Path, kind: type[Found], *, machine: Callable[[int], str], torch_version: str, used: str = ""
    ) -> None:
        """`machine` names the kind of this machine with so many threads."""
        self._directory = directory
        self._kind = kind
        self._machine = machine
        self._torch_version = torch_version
        self._used = used
        self._known: dict[int, MachineFiles[Found]] = {}

    def of(self, threads: int) -> MachineFiles[Found]:
        """Return the files. Any thread may ask."""
        files = self._known.get(threads)
        if files is None:
            new = MachineFiles(
                self._directory,
                self._kind,
                machine=self._machine(threads),
                torch_version=self._torch_version,
                used=self._used,
            )
            files = self._known.setdefault(threads, new)
        return files


def _sealed(said: bytes) -> bytes:
    return b'{"sha256":"%s","found":%s}' % (hashlib.sha256(said).hexdigest().encode(), said)


_HEAD_BYTES = len(_sealed(b"")) - 1
