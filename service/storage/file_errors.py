"""File errors: what the kernel says of this machine's files, as errors of the domain."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from service.domain.errors import ContentDamaged, DiskFull, TooManyOpenFiles

_FULL_DISK = (errno.ENOSPC, errno.EDQUOT)
_TOO_MANY_FILES = (errno.EMFILE, errno.ENFILE)


@contextmanager
def translate_full_disk() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL_DISK:
            raise
        raise DiskFull("there is too little room on the disk") from error


@contextmanager
def translate_too_many_files() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in _TOO_MANY_FILES:
            raise
        raise TooManyOpenFiles("the service has too many files open to open another") from error


@contextmanager
def translate_unreadable(digest: str) -> Iterator[None]:
    """Turn the error of a disk that cannot read a file back into ContentDamaged."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        raise ContentDamaged(f"the stored bytes of {digest} cannot be read", digest=digest) from error


def is_of_this_machine(error: BaseException) -> bool:
    """Whether the machine lacks room or descriptors, so that nothing is wrong with what it reads from or writes to."""
    return isinstance(error, OSError) and error.errno in (*_FULL_DISK, *_TOO_MANY_FILES)
