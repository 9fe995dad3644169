"""A file that is written: whole, or not at all."""

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def written_whole(path: Path) -> Iterator[BinaryIO]:
    """Yield a file that takes the place of the one at the path once the block ends; if it raises, all is as before.

    A link stays, and the file that it leads to is replaced. What is no file, such as /dev/stdout or a pipe, is never
    replaced: it is written to. Raises the OSError of a link that leads to itself, or round in a circle.
    """
    if _is_kept(path):
        with path.open("wb") as file:
            yield file
        return
    target = Path(os.path.realpath(path))
    part = _part_of(target)
    with part.open("xb") as file:
        try:
            yield file
            file.close()
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)


def check_writable(path: Path) -> None:
    """Raise the OSError with which a file that is written to the path would begin. Nothing is left there."""
    if not _is_kept(path):
        part = _part_of(Path(os.path.realpath(path)))
        part.open("xb").close()
        part.unlink()
    elif path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    elif not os.access(path, os.W_OK):  # a pipe is not opened: that waits for who reads it
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def _is_kept(path: Path) -> bool:
    """Whether something is there that is no file, and so never replaced. Raises OSError for links in a circle."""
    try:
        there = path.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a link that leads back to itself", str(path)) from error
        return False
    return not stat.S_ISREG(there.st_mode)


def _part_of(target: Path) -> Path:
    """Return where the file is until it is whole. Raises FileNotFoundError if there is no such directory."""
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no such directory", str(target.parent))
    return target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
