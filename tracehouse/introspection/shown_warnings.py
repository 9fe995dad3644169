"""Shown warnings: what Python prints of the warnings that a model's code, and torch for it, give during a check.

Each change of the filters has Python forget what it has shown, and a check changes them often. So it would show the
same warning for each call of the model, and in our own code, where that calls torch in the place of the model.
"""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from tracehouse.introspection.user_lines import Line, is_ours, line_of_frame


@contextmanager
def shown_once() -> Iterator[None]:
    """Show a warning once for each line of the user's code that it comes of; those of our own code not at all."""
    shown: set[tuple[type[Warning], str, Line | None]] = set()
    show_each = warnings.showwarning

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        of = line_of_frame(sys._getframe(1))
        if (category, str(message), of) in shown or (of is None and is_ours(filename)):
            return
        shown.add((category, str(message), of))
        if of is not None and is_ours(filename):
            filename, lineno, line = of.file, of.line, of.source
        show_each(message, category, filename, lineno, file, line)

    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = show_each
