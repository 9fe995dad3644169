"""Progress: what a person sees while a trace is made: on a terminal, in a notebook, or through a function."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Protocol

from tracehouse.client.check_progress import CheckProgress
from tracehouse.printable_text import printable

# The settings by which a service has workers in a pool.
_SLOTS = {"cpu": "TRACE_SLOTS", "gpu": "GPU_SLOTS"}

# A function gets the kind of each event and its data, as `GET /trace/{id}/events` sends them.
Progress = bool | Callable[[str, dict[str, Any]], object]


def explain_waiting(request: Mapping[str, Any]) -> str | None:
    """Return why a trace request cannot begin, and what would let it; None if it waits for its turn, or has begun."""
    if not request.get("waiting"):
        return None
    why = str(request["waiting"])
    if why.startswith("no worker"):
        slots = _SLOTS.get(str(request.get("pool")), "TRACE_SLOTS")
        why += f". There is one where the service is started with {slots}=1 or more"
    return printable(why)


class Shown(Protocol):
    """Where events are shown."""

    def take(self, kind: str, data: dict[str, Any]) -> None: ...


@contextmanager
def show_progress(progress: Progress) -> Iterator[Shown]:
    """Show progress as it is wanted: true shows it where somebody sees it, and false shows nothing."""
    if callable(progress):
        yield _Function(progress)
    elif not progress:
        yield _Nothing()
    elif _is_notebook():
        with _in_notebook() as shown:
            yield shown
    elif sys.stderr.isatty():
        with _on_terminal() as shown:
            yield shown
    else:
        yield _Nothing()


class _Nothing:
    def take(self, kind: str, data: dict[str, Any]) -> None:
        """Show nothing."""


class _Function:
    def __init__(self, function: Callable[[str, dict[str, Any]], object]) -> None:
        self._function = function

    def take(self, kind: str, data: dict[str, Any]) -> None:
        self._function(kind, data)


class EventText:
    """Describes events in a few words."""

    def __init__(self) -> None:
        self._check = CheckProgress()

    def describe(self, kind: str, data: Mapping[str, Any]) -> str | None:
        """Return the words; None for an event that changes nothing that is shown."""
        words = self._words(kind, data)
        return None if words is None else printable(words)

    def _words(self, kind: str, data: Mapping[str, Any]) -> str | None:
        match kind:
            case "stage":
                self._check.begin()
                return str(data.get("stage"))
            case "position":
                return f"queued, place {data.get('position')}{_expected(data.get('expected_start'))}"
            case "layer":
                return self._check.describe(data)
        return None


def _expected(start: str | None) -> str:
    """Say in how many minutes a request is expected to begin, if the service expects anything."""
    if start is None:
        return ""
    seconds = (datetime.fromisoformat(start) - datetime.now(UTC)).total_seconds()
    return f", expected to begin in {max(1, round(seconds / 60))} min"


class _Line:
    """One line that changes. `write` shows its text and how far the trace is, from 0 to 1; `log` what was printed."""

    def __init__(self, write: Callable[[str, float], object], log: Callable[[str], object]) -> None:
        self._write = write
        self._log = log
        self._text = EventText()
        self._done = 0.0

    def take(self, kind: str, data: dict[str, Any]) -> None:
        if kind == "log":
            self._log(printable(str(data.get("text", ""))))
        self._done = float(data.get("progress", self._done) or 0.0)
        if (text := self._text.describe(kind, data)) is not None:
            self._write(text, self._done)


def _is_notebook() -> bool:
    """Whether this is the kernel of a notebook, which IPython makes known."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and hasattr(shell, "kernel")


@contextmanager
def _in_notebook() -> Iterator[Shown]:
    from IPython.display import display

    handle = display({"text/plain": "submitted"}, raw=True, display_id=True)  # type: ignore[no-untyped-call]

    def write(text: str, done: float) -> None:
        handle.update({"text/plain": f"{text} · {done:.0%}"}, raw=True)

    try:
        yield _Line(write, sys.stdout.write)
    finally:
        handle.update({"text/plain": ""}, raw=True)


@contextmanager
def _on_terminal() -> Iterator[Shown]:
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeElapsedColumn()
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("submitted", total=1.0)

        def log(text: str) -> None:
            bar.console.print(text, end="", markup=False, highlight=False)

        yield _Line(lambda text, done: bar.update(task, description=text, completed=done), log)
