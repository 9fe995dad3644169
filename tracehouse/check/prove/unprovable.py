"""Why a proof cannot go on: the exception that ends a run, and the record of it."""

from collections.abc import Callable
from typing import NoReturn

from tracehouse.introspection import user_lines

FindLine = Callable[[], user_lines.Line | None]


class Unprovable(BaseException):
    """The proof cannot go on from here.

    It derives from BaseException, so that `except Exception` in a model's own code does not catch it.
    """

    def __init__(self, reason: str, line: user_lines.Line | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line


class ReadsValue(Unprovable):
    """The model reads a value of its inputs, and what it computes may depend on it."""


class ModelRaisesOnSymbols(Unprovable):
    """The model raises where its inputs have symbols for sizes."""


class RunStop:
    """The reason for which a run was stopped, if it was.

    A model may catch even what derives from BaseException. So the reason is kept, and is raised again at the next
    operator.
    """

    def __init__(self, find_line: FindLine) -> None:
        """`find_line` returns the line at which the run is."""
        self.find_line = find_line
        self.cause: Unprovable | None = None

    def stop(self, reason: str) -> NoReturn:
        """Stop the run where it is. Raises Unprovable always, with this reason and the present line."""
        self.cause = Unprovable(reason, self.find_line())
        raise self.cause

    def check(self) -> None:
        """Raise the Unprovable that stopped the run before, if any did."""
        if self.cause is not None:
            raise self.cause
