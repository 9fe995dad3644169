"""Tracebacks as Python prints them, but without our own frames and this machine's paths."""

import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from traceback import FrameSummary, TracebackException

from tracehouse.introspection import paths, user_lines

_IMPORTING = str(Path(importlib.__file__).parent) + os.sep  # Python leaves these frames out too


def print_traceback(error: BaseException) -> None:
    """Print an error's traceback and those of its causes on standard error."""
    report = TracebackException.from_exception(error)
    for each in _with_causes(report):
        each.stack[:] = [_shorten_path(frame) for frame in each.stack if _is_shown(frame)]
    sys.stderr.writelines(report.format())


def _with_causes(report: TracebackException | None) -> Iterator[TracebackException]:
    if report is None:
        return
    yield report
    for other in (report.__cause__, report.__context__, *(getattr(report, "exceptions", None) or ())):
        yield from _with_causes(other)


def _is_shown(frame: FrameSummary) -> bool:
    return not (user_lines.is_ours(frame.filename) or frame.filename.startswith((_IMPORTING, "<frozen")))


def _shorten_path(frame: FrameSummary) -> FrameSummary:
    _ = frame.line  # reads the line now, while the frame still has the file's real path
    frame.filename = paths.without_path(frame.filename)
    return frame
