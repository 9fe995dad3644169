"""The kernel's calls that Python does not offer, made through the C library."""

import ctypes
import os

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38

# ctypes.util.find_library would start a compiler.
_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long

Argument = int | bytes | None


def prctl(option: int, value: int) -> None:
    _check(_libc.prctl(ctypes.c_int(option), ctypes.c_ulong(value), *[ctypes.c_ulong(0)] * 3))


def syscall(number: int, *arguments: Argument) -> int:
    """Make a system call and return its result. Raises OSError. Bytes are passed by their address."""
    result: int = _libc.syscall(ctypes.c_long(number), *map(_word, arguments))
    return _check(result)


def _word(argument: Argument) -> ctypes.c_long | bytes | None:
    return ctypes.c_long(argument) if isinstance(argument, int) else argument


def _check(result: int) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result
