"""Files in memory: a child writes into one that it is given, and opens nothing else by its path."""

import fcntl
import os
from contextlib import ExitStack


def open_memory_file(stack: ExitStack, name: str) -> int | None:
    """Return the descriptor of an empty file, which is closed with the stack; None where the system has no such file.

    A child can open it anew by its path in /proc: Landlock leaves alone what lies in no file system. Its memory counts
    for no process, and the child's limit on the size of a file bounds it.
    """
    if not hasattr(os, "memfd_create"):
        return None
    try:
        file = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    except OSError:  # vm.memfd_noexec may forbid it
        return None
    stack.callback(os.close, file)
    return file


def empty(file: int) -> None:
    """Free the memory of a file that `open_memory_file` returned. A child that has it cannot fill it again."""
    os.ftruncate(file, 0)
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW)
