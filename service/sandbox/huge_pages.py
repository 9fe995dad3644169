"""Huge pages: memory in pages of 2 MiB, of which a fork copies some hundred entries, and not some ten thousand."""

import ctypes
from collections.abc import Iterator
from pathlib import Path

from tracehouse.byte_units import MIB

_PAGE = 2 * MIB
_MADV_COLLAPSE = 25  # madvise(2), since Linux 6.1; what does not know it refuses, and nothing changes


def collapse() -> int:
    """Have the kernel move what this process has of its own into huge pages; return how many it made.

    What fills one only in part becomes whole, some MiB in all. A child that writes to one gets a small page instead.
    """
    madvise = ctypes.CDLL(None).madvise
    made = 0
    for start, end in _own_memory():
        for page in range(-(-start // _PAGE) * _PAGE, end - _PAGE + 1, _PAGE):
            made += madvise(ctypes.c_void_p(page), ctypes.c_size_t(_PAGE), _MADV_COLLAPSE) == 0
    return made


def _own_memory() -> Iterator[tuple[int, int]]:
    """Yield where memory begins and ends that no file backs, and that can be written."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        place, access, _, _, inode, *_ = line.split(maxsplit=5)
        if access == "rw-p" and inode == "0":
            start, _, end = place.partition("-")
            yield int(start, 16), int(end, 16)
