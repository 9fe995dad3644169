"""The progress of a trace in a terminal: a bar, with what the source prints above it. Without a terminal, no bar."""

from collections.abc import Mapping
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from tracehouse.client.progress import EventText
from tracehouse.printable_text import printable


class ProgressBar:
    """As a context manager, it is shown until the block ends."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        columns = TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeElapsedColumn()
        self._bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._texts = EventText()
        self._task = self._bar.add_task("queued", total=1.0)
        self._line_is_open = False

    def __enter__(self) -> Self:
        self._bar.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()
        if self._line_is_open:  # what follows begins a line of its own
            self._bar.console.print()

    def take(self, kind: str, data: Mapping[str, Any]) -> None:
        """Show what an event of the request says, as `GET /trace/{id}/events` sends them."""
        if (text := self._texts.describe(kind, data)) is not None:
            self._bar.update(self._task, description=text, completed=data.get("progress"), refresh=True)

    def print(self, text: str) -> None:
        self._line_is_open = text[-1:] not in ("", "\n")
        self._bar.console.print(printable(text), end="", markup=False, highlight=False)
