"""Landlock: a process gives up the file system, except for paths that it names before.

The kernel's documentation, Documentation/userspace-api/landlock.rst, has the numbers; they are the same on every
architecture. Each newer ABI mediates more, and everything that the kernel's ABI mediates is denied here.
"""

import os
import stat
import struct
from collections.abc import Iterable

from service.sandbox.kernel import syscall

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION = 1  # the flag that asks for the ABI
_PATH_BENEATH = 1

_WRITE_FILE = 1 << 1
_READ_FILE = 1 << 2
_READ_DIR = 1 << 3
# How many rights to files an ABI mediates, in the lowest bits: ABI 2 adds REFER, 3 TRUNCATE, 5 IOCTL_DEV.
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
_TCP = 0b11  # bind and connect, since ABI 4
_SCOPES = 0b11  # abstract unix sockets and signals, since ABI 6


def abi() -> int:
    """Return the kernel's Landlock ABI; 0 if it has none. The kernel itself is asked, because /sys may be hidden."""
    try:
        return syscall(_CREATE_RULESET, None, 0, _VERSION)
    except OSError:
        return 0


def restrict(readable: Iterable[str], writable: Iterable[str] = ()) -> None:
    """Restrict this process for good: it can read only `readable` paths, and write only `writable` files.

    A directory stands for all beneath it; paths that do not exist or cannot be reached are left out. Nothing can be
    executed, created or removed, no TCP port used, and no outside process signalled, as far as the kernel's ABI
    mediates that. Needs no_new_privs.
    """
    known = abi()
    mediated = (1 << _FILE_RIGHTS[min(known, max(_FILE_RIGHTS))]) - 1
    ruleset = _create(mediated, known)
    try:
        for path in readable:
            _allow(ruleset, path, _READ_FILE | _READ_DIR)
        for path in writable:
            _allow(ruleset, path, _READ_FILE | _WRITE_FILE)
        syscall(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _create(mediated: int, known: int) -> int:
    attributes = struct.pack("=QQQ", mediated, _TCP, _SCOPES)
    size = 24 if known >= 6 else 16 if known >= 4 else 8
    return syscall(_CREATE_RULESET, attributes, size, 0)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):  # a path that cannot be reached needs no rule
        return
    try:
        if not stat.S_ISDIR(os.fstat(parent).st_mode):
            rights &= ~_READ_DIR
        syscall(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", rights, parent), 0)
    finally:
        os.close(parent)
