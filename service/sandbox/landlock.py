"""Landlock: a process shuts itself out of the file system, but for the paths that it names first.

The kernel's documentation, Documentation/userspace-api/landlock.rst, has the numbers; they are the same on every
architecture. Each newer ABI mediates more, and all of what it knows is denied here.
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
# How many rights to files an ABI mediates, the first bits each: ABI 2 adds REFER, 3 TRUNCATE, 5 IOCTL_DEV.
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
_TCP = 0b11  # bind and connect, since ABI 4
_SCOPES = 0b11  # abstract unix sockets and signals, since ABI 6


def abi() -> int:
    """What this kernel mediates; 0 where it has no Landlock. Asked of the kernel: /sys may be hidden."""
    try:
        return syscall(_CREATE_RULESET, None, 0, _VERSION)
    except OSError:
        return 0


def restrict(readable: Iterable[str], writable: Iterable[str] = ()) -> None:
    """For good: of the file system, only what is `readable` can be read, and only `writable` files also be written.

    A directory stands for all beneath it; what is not there, or out of reach, is left out. Nothing can be executed,
    created or removed, no TCP port be used, and no process outside be signalled, as far as this kernel's ABI goes.
    Needs no_new_privs.
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
    except (FileNotFoundError, PermissionError):  # whoever cannot reach it needs no rule to be kept from it
        return
    try:
        if not stat.S_ISDIR(os.fstat(parent).st_mode):
            rights &= ~_READ_DIR
        syscall(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", rights, parent), 0)
    finally:
        os.close(parent)
