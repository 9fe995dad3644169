"""Shared bodies: a large body of a frame lies in memory that both sides of a channel have, and not in their socket.

A socket takes a body in pieces of some hundred kilobytes, and each piece wakes the other side. Here, each direction has
a memory that holds one body at a time. It is free again once the other side has sent a frame, so the two sides must
take turns: a second body before that is not taken. Who receives a body takes a copy, so that the other side can change
nothing of it afterwards.
"""

import contextlib
import ctypes
import fcntl
import mmap
import os
from collections.abc import Sequence
from typing import Self

from service.sandbox.memory_file import open_memory_file
from tracehouse.byte_units import MIB

# The longest body. Its copy holds the event loop for less than 1 ms, and the memory stays. One of 16 MiB that came anew
# from the kernel for each body held it for 11 ms, on two busy cores, where the socket, which takes pieces, does for 2.
MOST_BYTES = 4 * MIB
_BLOCK_BYTES = 512  # of `st_blocks`, on every system
_PYBUF_WRITE = 0x200  # PyBUF_WRITE of Python's C API


class SharedBodies:
    """The memories of both directions, as one side sees them."""

    def __init__(self, sent: "_BodyMemory", received: "_BodyMemory") -> None:
        self._sent = sent
        self._received = received
        self._is_taken = False
        self._may_come = True

    @classmethod
    def make(cls) -> Self | None:
        """Return new memories; None where the system has none of this kind, or no more of them."""
        with contextlib.suppress(OSError), contextlib.ExitStack() as unless_made:
            files = [open_memory_file(unless_made, name) for name in ("bodies to a child", "bodies of a child")]
            to_child, of_child = files
            if to_child is None or of_child is None:
                return None
            for file in (to_child, of_child):
                os.ftruncate(file, MOST_BYTES)
                # A child that cut it off would end a parent that reads there.
                fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
            made = cls(_BodyFile(to_child), _BodyFile(of_child))
            unless_made.pop_all()
            return made
        return None

    @classmethod
    def in_child(cls, to_child: int, of_child: int) -> Self:
        """Return the other side of those whose `descriptors` these are, and close the descriptors.

        Whoever writes into a file locks it. Its parent would wait for a child that did so without an end.
        """
        made = cls(_BodyMemory(_map_alone(of_child)), _BodyMemory(_map_alone(to_child)))
        os.close(of_child)
        os.close(to_child)
        return made

    @property
    def descriptors(self) -> tuple[int, int]:
        """What a child is to be given, in this order."""
        return self._sent.file, self._received.file

    @property
    def held_bytes(self) -> int:
        """The memory that both directions take."""
        return self._sent.held_bytes + self._received.held_bytes

    def put(self, parts: Sequence[memoryview], byte_size: int) -> bool:
        """Put a body there for the other side; False if it does not fit, or the one before may not be taken yet."""
        if self._is_taken:
            return False
        self._is_taken = self._sent.write(parts, byte_size)
        return self._is_taken

    def take(self, byte_size: int) -> bytearray | None:
        """Return the body that the other side has put there; None if there cannot be one of this size, or one more.

        A frame that claims a body costs the other side some bytes, and a copy costs this one milliseconds.
        """
        if not self._may_come:
            return None
        self._may_come = False
        return self._received.read(byte_size)

    def note_sent(self) -> None:
        """This side sends a frame: the other side may put another body there."""
        self._may_come = True

    def note_answer(self) -> None:
        """The other side has sent a frame: it has taken what was put there."""
        self._is_taken = False

    def close(self) -> None:
        self._sent.close()
        self._received.close()


class _BodyMemory:
    """The memory of one direction."""

    file = -1

    def __init__(self, memory: mmap.mmap | memoryview) -> None:
        self._memory = memory

    @property
    def held_bytes(self) -> int:
        try:
            return os.fstat(self.file).st_blocks * _BLOCK_BYTES
        except OSError:  # it was closed meanwhile
            return 0

    def write(self, parts: Sequence[memoryview], byte_size: int) -> bool:
        if not self._promise(byte_size):
            return False
        start = 0
        with memoryview(self._memory) as view:
            for part in parts:
                view[start : start + len(part)] = part
                start += len(part)
        return True

    def read(self, byte_size: int) -> bytearray | None:
        if not self._promise(byte_size):
            return None
        with memoryview(self._memory) as view, view[:byte_size] as body:
            return bytearray(body)

    def close(self) -> None:
        """Close it. A child's stays until its end."""

    def _promise(self, byte_size: int) -> bool:
        """Whether there is memory for a body of this size."""
        return byte_size <= MOST_BYTES


class _BodyFile(_BodyMemory):
    """The memory of one direction in a parent, which owns its descriptor. It alone asks the kernel for it: a child may
    not."""

    def __init__(self, file: int) -> None:
        self._map = mmap.mmap(file, MOST_BYTES)
        super().__init__(self._map)
        self.file = file
        self._promised_bytes = 0  # by the kernel

    def close(self) -> None:
        """Close it. From now on nothing fits, and its descriptor, which may soon be another file's, is forgotten."""
        file, self.file, self._promised_bytes = self.file, -1, 0
        self._map.close()
        os.close(file)

    def _promise(self, byte_size: int) -> bool:
        """Ask the kernel for memory before it is touched: where there is none left, that ends the process."""
        if self.file < 0 or byte_size > MOST_BYTES:
            return False
        if byte_size > self._promised_bytes:
            try:
                os.posix_fallocate(self.file, 0, byte_size)
            except OSError:
                return False
            self._promised_bytes = byte_size
        return True


def _map_alone(file: int) -> memoryview:
    """Map a file without keeping a descriptor of it, as Python's mmap does before 3.13."""
    map_file = ctypes.CDLL(None, use_errno=True).mmap
    map_file.restype = ctypes.c_void_p
    map_file.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    address = map_file(None, MOST_BYTES, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, file, 0)
    if address == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), "a shared body cannot be mapped")
    view_memory = ctypes.pythonapi.PyMemoryView_FromMemory
    view_memory.restype = ctypes.py_object
    view_memory.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int]
    view: memoryview = view_memory(address, MOST_BYTES, _PYBUF_WRITE)
    return view
