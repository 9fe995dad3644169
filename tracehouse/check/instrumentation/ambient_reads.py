"""Ambient reads: what a method asks the process for while it runs, such as the clock and the environment.

A trace keeps what was found on the example. Whether an answer shows it is found by trying others.
"""

import builtins
import datetime
import io
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from types import FrameType
from typing import Any, Literal, Self

import torch
from torch._jit_internal import is_scripting
from torch.jit._trace import is_tracing

from tracehouse.findings.trace_check import Effect
from tracehouse.introspection import user_lines

Kind = Literal["clock", "entropy", "environment", "file", "process"]

_DAY_S = 86_400.0
# Another hour, weekday and fraction of a second; the other half of a day; years on and back.
_SHIFTS_S = (37 * _DAY_S + 12_345.678, 0.5 * _DAY_S, 7_000 * _DAY_S, -7_000 * _DAY_S)
_JUMP_S = 1000.0
_CLOCKS_S = ("time", "monotonic", "perf_counter", "process_time", "thread_time")
_CLOCKS_NS = tuple(f"{name}_ns" for name in _CLOCKS_S)
_CALENDARS = ("localtime", "gmtime")
_ENVIRONMENT_VALUES = (None, "0", "1", "other")

# By what the profiler is handed: a function of C.
_FUNCTIONS: dict[int, tuple[Kind, str]] = {
    **{id(getattr(time, name)): ("clock", f"time.{name}")
       for name in (*_CLOCKS_S, *_CLOCKS_NS, *_CALENDARS, "strftime", "ctime", "asctime")},
    id(os.urandom): ("entropy", "os.urandom"),
    id(builtins.open): ("file", "open"),
    id(io.open_code): ("file", "open"),
    id(os.open): ("file", "os.open"),
    id(os.stat): ("file", "os.stat"),
    id(os.listdir): ("file", "os.listdir"),
    id(os.getpid): ("process", "os.getpid"),
    id(threading.get_ident): ("process", "threading.get_ident"),
    id(threading.get_native_id): ("process", "threading.get_native_id"),
}  # fmt: skip
_DATES = ("now", "utcnow", "today")
_ENVIRONMENT = {type(os.environ).__getitem__.__code__, type(os.environ).__contains__.__code__}
TO_DLPACK = "torch.utils.dlpack.to_dlpack"
# Of what asks how it is run: the functions of Python, and those of C.
_CONTEXTS = {
    getattr(function, "__code__", None): name
    for name, function in (
        ("torch.jit.is_tracing", is_tracing),
        ("torch.jit.is_scripting", is_scripting),
        ("torch.onnx.is_in_onnx_export", torch.onnx.is_in_onnx_export),
        ("torch.compiler.is_compiling", torch.compiler.is_compiling),
        ("torch.compiler.is_exporting", getattr(torch.compiler, "is_exporting", None)),
    )
}
_CONTEXT_FUNCTIONS = {
    id(function): name
    for name, function in (
        ("torch.is_grad_enabled", torch.is_grad_enabled),
        ("torch.is_inference_mode_enabled", torch.is_inference_mode_enabled),
        ("torch.is_autocast_enabled", torch.is_autocast_enabled),
        ("torch.get_num_threads", torch.get_num_threads),
        ("torch.get_default_dtype", torch.get_default_dtype),
        (TO_DLPACK, torch._C._to_dlpack),  # as torch.utils.dlpack has it
    )
}
# They look at files for themselves, while they import and while they show a line.
_OF_PYTHON_ITSELF = ("<frozen importlib", "linecache.py", "inspect.py", "traceback.py", "warnings.py", "tokenize.py")


@dataclass(frozen=True)
class AmbientRead:
    """What was asked for, on which line; `key` is the variable's, of the environment."""

    kind: Kind
    name: str
    line: user_lines.Line
    key: str | None = None


@dataclass(frozen=True)
class AmbientEffect:
    """Harmful: the answer, or what is recorded, was seen to be another where another was found."""

    read: AmbientRead
    effect: Effect
    reason: str


@dataclass(frozen=True)
class ContextRead:
    """How the model is run was asked: traced, scripted, with gradients. A trace keeps the one answer."""

    name: str
    line: user_lines.Line


class AmbientRecorder:
    """Notes what is asked for on the user's lines while it is entered."""

    def __init__(self) -> None:
        self.reads: dict[AmbientRead, None] = {}
        self.contexts: dict[ContextRead, None] = {}

    def __enter__(self) -> Self:
        self._before = sys.getprofile()
        sys.setprofile(self._saw)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(self._before)

    def _saw(self, frame: FrameType, event: str, function: Any) -> None:
        if event == "call":
            self._saw_call(frame)
        elif event == "c_call":
            found = _FUNCTIONS.get(id(function)) or _date(function)
            if found is not None:
                self._note(*found, frame)
            elif id(function) in _CONTEXT_FUNCTIONS:
                self._note_context(_CONTEXT_FUNCTIONS[id(function)], frame)

    def _saw_call(self, frame: FrameType) -> None:
        if frame.f_code in _ENVIRONMENT:
            self._note("environment", "os.environ", frame, frame.f_locals.get("key"))
        elif frame.f_code in _CONTEXTS:
            self._note_context(_CONTEXTS[frame.f_code], frame.f_back)

    def _note(self, kind: Kind, name: str, frame: FrameType, key: Any = None) -> None:
        line = _line(frame)
        if line is not None:
            self.reads[AmbientRead(kind, name, line, key if type(key) is str else None)] = None

    def _note_context(self, name: str, frame: FrameType | None) -> None:
        if frame is not None and user_lines.is_user(frame.f_code.co_filename):
            self.contexts[ContextRead(name, user_lines.line_at(frame.f_code.co_filename, frame.f_lineno))] = None


def make_alternatives(asked: AmbientRead) -> Iterator[tuple[str, AbstractContextManager[Any]]]:
    """Worlds in which something else is found; none for what cannot be replaced."""
    match asked.kind:
        case "clock":
            for shift in _SHIFTS_S:
                yield f"the clock moved by {shift:.0f} s", _clock(shift, 0.0)
            yield "a clock that jumps", _clock(0.0, _JUMP_S)
        case "environment" if asked.key is not None:
            for value in _ENVIRONMENT_VALUES:
                if value != os.environ.get(asked.key):
                    shown = "not set" if value is None else f"set to {value!r}"
                    yield f"{asked.key} {shown}", _environment(asked.key, value)
        case "entropy":
            yield "other random bytes", nullcontext()


def can_be_replaced(asked: AmbientRead) -> bool:
    return asked.kind in ("clock", "entropy") or (asked.kind == "environment" and asked.key is not None)


@contextmanager
def pretend_tracing() -> Iterator[None]:
    """The user's code is told that it is being traced."""
    with replace_functions({id(is_tracing): (torch.jit, "is_tracing", lambda: True)}):
        yield


def _date(function: Any) -> tuple[Kind, str] | None:
    name = getattr(function, "__name__", None)
    if name not in _DATES:
        return None
    owner = getattr(function, "__self__", None)
    return ("clock", f"datetime.{name}") if isinstance(owner, type) and issubclass(owner, datetime.date) else None


def _line(frame: FrameType | None) -> user_lines.Line | None:
    """The user's, unless torch, Python's imports or we stand between: then it is not the model that asks."""
    while frame is not None:
        file = frame.f_code.co_filename
        if user_lines.is_user(file):
            return user_lines.line_at(file, frame.f_lineno)
        if user_lines.is_ours(file) or user_lines.is_library_of_torch(file) or file.startswith("<frozen importlib"):
            return None
        if file.endswith(_OF_PYTHON_ITSELF):
            return None
        frame = frame.f_back
    return None


@contextmanager
def _environment(key: str, value: str | None) -> Iterator[None]:
    own = dict(os.environ)
    try:
        if value is None:
            os.environ.pop(key, None)
        else:
            os.environ[key] = value
        yield
    finally:
        os.environ.clear()
        os.environ.update(own)


@contextmanager
def _clock(shift: float, jump: float) -> Iterator[None]:
    """Moved, and further each time that it is asked."""
    asked = 0

    def moved_s() -> float:
        nonlocal asked
        asked += 1
        return shift + asked * jump

    with replace_functions(_clocks(moved_s)):
        yield


def _clocks(moved_s: Callable[[], float]) -> dict[int, tuple[Any, str, Any]]:
    replaced: dict[int, tuple[Any, str, Any]] = {}
    for name in _CLOCKS_S:
        own = getattr(time, name)
        replaced[id(own)] = time, name, lambda own=own: own() + moved_s()
    for name in _CLOCKS_NS:
        own = getattr(time, name)
        replaced[id(own)] = time, name, lambda own=own: own() + int(moved_s() * 1e9)
    now, calendars = time.time, {name: getattr(time, name) for name in _CALENDARS}
    for name, own in calendars.items():
        replaced[id(own)] = time, name, lambda at=None, own=own: own(now() + moved_s() if at is None else at)
    strftime, localtime, ctime = time.strftime, time.localtime, time.ctime
    replaced[id(strftime)] = (
        time, "strftime", lambda form, at=None: strftime(form, localtime(now() + moved_s()) if at is None else at)
    )  # fmt: skip
    replaced[id(ctime)] = time, "ctime", lambda at=None: ctime(now() + moved_s() if at is None else at)
    for kind in (datetime.datetime, datetime.date):
        replaced[id(kind)] = datetime, kind.__name__, _moved_date(kind, moved_s)
    return replaced


def _moved_date(kind: Any, moved_s: Callable[[], float]) -> type:
    def method(name: str) -> Any:
        own = getattr(kind, name)
        return classmethod(lambda _, *args, **kwargs: own(*args, **kwargs) + datetime.timedelta(seconds=moved_s()))

    return type(kind.__name__, (kind,), {name: method(name) for name in _DATES if hasattr(kind, name)})


@contextmanager
def replace_functions(replacements: dict[int, tuple[Any, str, Any]]) -> Iterator[None]:
    """In their own modules, and wherever the submitted ones have imported them to."""
    with ExitStack() as stack:
        for owner, name, value in replacements.values():
            stack.enter_context(_attribute(owner, name, value))
        for module in [sys.modules.get(name) for name in list(user_lines.submitted.values())]:
            for name, value in list(vars(module).items()) if module is not None else ():
                if id(value) in replacements:
                    stack.enter_context(_attribute(module, name, replacements[id(value)][2]))
        yield


@contextmanager
def _attribute(owner: Any, name: str, value: Any) -> Iterator[None]:
    own = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, own)
