"""Credentials: whom a process acts as. Each change is for good."""

import os
import struct

from service.sandbox.kernel import syscall
from service.sandbox.system_calls import number

_VERSION_3 = 0x20080522  # of the capability sets, 64 bits each; linux/capability.h


def become(uid: int) -> None:
    """Be this user, and of no group but its own. The kernel takes every capability away with it."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def drop_capabilities() -> None:
    """Root stays the owner of root's files, and can do nothing else that others cannot."""
    capset = number("capset")
    assert capset is not None
    syscall(capset, struct.pack("=Ii", _VERSION_3, 0), struct.pack("=6I", *[0] * 6))
