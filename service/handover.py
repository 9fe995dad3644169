"""Handover: objects that one process hands to another one over a socket, with their large bytes in memory of both.

A socket takes some megabytes in dozens of pieces, each of which wakes the other side, and pickle copies them twice.
"""

import io
import os
import pickle
import socket
import struct
from typing import Any

from tracehouse.byte_units import MIB

# Fewer go through the socket, which costs no more.
_LARGE_BYTES = 64 * 1024
# The memory that stays for the next ones.
_KEPT_BYTES = 8 * MIB
_LENGTH = struct.Struct("<Q")


class HandoverBroken(Exception):
    """The other side has ended."""


class Handover:
    """One side of a socket, and the file in memory of both, if there is one. The sides take turns, one object each."""

    def __init__(self, connection: socket.socket, file: int | None = None) -> None:
        self._socket = connection
        self._file = file

    def send(self, value: Any) -> None:
        """Raises HandoverBroken, and what pickle raises."""
        pickled = io.BytesIO()
        _Pickler(pickled, self._file).dump(value)
        try:
            self._socket.sendall(_LENGTH.pack(pickled.tell()))
            self._socket.sendall(pickled.getbuffer())
        except OSError as error:
            raise HandoverBroken from error

    def receive(self) -> Any:
        """Return what the other side has sent. Raises HandoverBroken."""
        (length,) = _LENGTH.unpack(self._receive(_LENGTH.size))
        value = _Unpickler(io.BytesIO(self._receive(length)), self._file).load()
        self._shrink()
        return value

    def close(self) -> None:
        self._socket.close()
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _receive(self, byte_size: int) -> bytearray:
        received = bytearray(byte_size)
        with memoryview(received) as left:
            start = 0
            while start < byte_size:
                try:
                    count = self._socket.recv_into(left[start:])
                except OSError as error:
                    raise HandoverBroken from error
                if not count:
                    raise HandoverBroken
                start += count
        return received

    def _shrink(self) -> None:
        """Free what a larger object than usual took. It was read, so that nobody misses it."""
        if self._file is not None and os.fstat(self._file).st_size > _KEPT_BYTES:
            os.ftruncate(self._file, _KEPT_BYTES)


class _Pickler(pickle.Pickler):
    """Puts large bytes into the file, one after the other."""

    def __init__(self, pickled: io.BytesIO, file: int | None) -> None:
        super().__init__(pickled, pickle.HIGHEST_PROTOCOL)
        self._file = file
        self._end = 0

    def persistent_id(self, value: Any) -> tuple[int, int] | None:
        if type(value) is not bytes or len(value) < _LARGE_BYTES or self._file is None:
            return None
        start = self._end
        if not _write(self._file, value, start):
            return None
        self._end += len(value)
        return start, len(value)


class _Unpickler(pickle.Unpickler):
    def __init__(self, pickled: io.BytesIO, file: int | None) -> None:
        super().__init__(pickled)
        self._file = file

    def persistent_load(self, place: tuple[int, int]) -> bytes:
        assert self._file is not None  # as the other side has it
        start, length = place
        return os.pread(self._file, length, start)


def _write(file: int, value: bytes, start: int) -> bool:
    """Write all of it; False where there is no memory for it."""
    with memoryview(value) as view:
        written = 0
        while written < len(value):
            try:
                written += os.pwrite(file, view[written:], start + written)
            except OSError:
                return False
    return True
