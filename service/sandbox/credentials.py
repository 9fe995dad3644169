"""Credentials: the user and the capabilities of a process. No change can be undone."""

import os
import struct

from service.sandbox.kernel import syscall
from service.sandbox.system_calls import find_number

_VERSION_3 = 0x20080522  # capability sets of 64 bits each; linux/capability.h


def become(uid: int) -> None:
    """Become this user with no group but its own. The kernel then drops every capability."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def drop_capabilities() -> None:
    """Drop every capability: root still owns root's files, but can do nothing else that other users cannot."""
    capset = find_number("capset")
    assert capset is not None
    syscall(capset, struct.pack("=Ii", _VERSION_3, 0), struct.pack("=6I", *[0] * 6))
