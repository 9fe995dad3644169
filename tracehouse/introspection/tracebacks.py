"""Tracebacks as Python prints them, without our own frames and this machine's paths."""

import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from traceback import FrameSummary, TracebackException

from tracehouse.introspection import paths, user_lines

_IMPORTING = str(Path(importlib.__file__).parent) + os.sep  # as Python leaves it out itself


def print_traceback(error: BaseException) -> None:
    """On standard error, with what it was caused by."""
    told = TracebackException.from_exception(error)
    for each in _with_causes(told):
        each.stack[:] = [_shorten_path(frame) for frame in each.stack if _is_shown(frame)]
    sys.stderr.writelines(told.format())


def _with_causes(told: TracebackException | None) -> Iterator[TracebackException]:
    if told is None:
        return
    yield told
    for other in (told.__cause__, told.__context__, *(getattr(told, "exceptions", None) or ())):
        yield from _with_causes(other)


def _is_shown(frame: FrameSummary) -> bool:
    return not (user_lines.is_ours(frame.filename) or frame.filename.startswith((_IMPORTING, "<frozen")))


def _shorten_path(frame: FrameSummary) -> FrameSummary:
    _ = frame.line  # is looked up under the name that the file has here
    frame.filename = paths.without_path(frame.filename)
    return frame
