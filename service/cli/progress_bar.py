"""The progress of a trace in a terminal: a bar, with what the source prints above it. Without a terminal, no bar."""

from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

_out = Console(stderr=True)


class ProgressBar:
    """As a context manager, it is shown until the block ends."""

    def __init__(self) -> None:
        columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn()
        self._bar = Progress(*columns, console=_out, transient=True, disable=not _out.is_terminal)
        self._task = self._bar.add_task("queued", total=1.0)

    def __enter__(self) -> Self:
        self._bar.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def advance(self, text: str, progress: float | None) -> None:
        """Show what is done, and how far that is from 0 to 1; None: as far as before."""
        self._bar.update(self._task, description=text, completed=progress)

    def print(self, text: str) -> None:
        self._bar.console.print(text, end="", markup=False, highlight=False)
