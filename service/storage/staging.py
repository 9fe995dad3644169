"""Staging: files that are being written, each under a lock that ends with the process that writes it."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4


class Staging:
    """A directory of such files. Any number of processes may share it."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory

    def create(self) -> tuple[Path, BinaryIO]:
        """Make a new file, which is locked until it is closed."""
        while True:
            path = self.directory / uuid4().hex
            file = path.open("xb")
            # Another process may have cleared the directory before the lock.
            if try_lock(file) and os.fstat(file.fileno()).st_nlink:
                return path, file
            file.close()

    def clear(self) -> None:
        """Remove the files that killed processes left. A file that is being written is locked, and remains."""
        for path in self.directory.iterdir():
            # The process that writes it may move it away meanwhile. NFS locks only what was opened for writing.
            with suppress(FileNotFoundError), path.open("r+b") as file:
                if try_lock(file):
                    path.unlink()


def try_lock(file: BinaryIO, *, is_shared: bool = False) -> bool:
    """Lock the open file for as long as it, or a descriptor made of it, is open; False if others have locked it."""
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
