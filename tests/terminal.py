"""A terminal in which what is written to standard error can be read."""

import os
import pty
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

_READ_BYTES = 65536


class Terminal:
    """`text` is what was written once the block of `terminal` has ended."""

    text = ""


@contextmanager
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """Let standard error be a terminal until the block ends."""
    main, other = pty.openpty()
    shown = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    try:
        with open(other, "w", encoding="utf-8") as written, monkeypatch.context() as patched:
            patched.setattr(sys, "stderr", written)
            yield shown
        shown.text = b"".join(_read_all(main)).decode()
    finally:
        os.close(main)


def _read_all(descriptor: int) -> Iterator[bytes]:
    with suppress(OSError):  # so Linux ends a terminal that nobody has open
        while piece := os.read(descriptor, _READ_BYTES):
            yield piece
