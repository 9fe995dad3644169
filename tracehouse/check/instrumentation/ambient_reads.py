"""Ambient reads: what a method reads from the process while it runs, such as the clock and the environment.

sys.setprofile reports the calls that read. A trace keeps the value that was read while it was recorded, so other values
are put in its place to find out whether an answer depends on it.
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

from tracehouse.check.instrumentation import asked_settings
from tracehouse.eager import memory_files
from tracehouse.findings.finding import Effect
from tracehouse.introspection import user_lines

Kind = Literal["clock", "entropy", "environment", "file", "process", "order", "setting", "count"]

_DAY_S = 86_400.0
# The first shift gives another hour, weekday and fraction of a second; the next the other half of the day; the last two
# go 19 years on and back.
_SHIFTS_S = (37 * _DAY_S + 12_345.678, 0.5 * _DAY_S, 7_000 * _DAY_S, -7_000 * _DAY_S)
# Then each hour of the day once, on all weekdays and in all months: a model may go another way in one of them alone.
_CALENDAR_SHIFTS_S = tuple(number * (16 * _DAY_S + 3_600.0) for number in range(1, 24))
_JUMP_S = 1000.0
_CLOCKS_S = ("time", "monotonic", "perf_counter", "process_time", "thread_time")
_CLOCKS_NS = tuple(f"{name}_ns" for name in _CLOCKS_S)
# They are told which clock to read. Only Unix has them.
_NUMBERED_CLOCKS = {
    name: factor for name, factor in (("clock_gettime", 1.0), ("clock_gettime_ns", 1e9)) if hasattr(time, name)
}
# They count from a moment of their own, so they know no hour.
_STOPWATCHES = {f"time.{name}{unit}" for name in _CLOCKS_S if name != "time" for unit in ("", "_ns")}
_CALENDARS = ("localtime", "gmtime")
_ENVIRONMENT_VALUES = (None, "0", "1", "other")

# What each function written in C reads. Keyed by the identity of the function, which is what a profiler receives.
_FUNCTIONS: dict[int, tuple[Kind, str]] = {
    **{id(getattr(time, name)): ("clock", f"time.{name}")
       for name in (*_CLOCKS_S, *_CLOCKS_NS, *_NUMBERED_CLOCKS, *_CALENDARS, "strftime", "ctime", "asctime")},
    id(os.urandom): ("entropy", "os.urandom"),
    id(builtins.open): ("file", "open"),
    id(io.open_code): ("file", "open"),
    id(os.open): ("file", "os.open"),
    id(os.stat): ("file", "os.stat"),
    id(os.listdir): ("file", "os.listdir"),
    id(threading.get_ident): ("process", "threading.get_ident"),
    id(threading.get_native_id): ("process", "threading.get_native_id"),
}  # fmt: skip
_DATES = ("now", "utcnow", "today")
_ENVIRONMENT_CODES = {type(os.environ).__getitem__.__code__, type(os.environ).__contains__.__code__}
IS_TRACING, TRACING_STATE = "torch.jit.is_tracing", "torch._C._get_tracing_state"
ASKS_ABOUT_TRACING = (IS_TRACING, TRACING_STATE)
_get_tracing_state = torch._C._get_tracing_state
TO_DLPACK = "torch.utils.dlpack.to_dlpack"
# Functions that tell how the model is run: by their code objects if written in Python, by identity if written in C.
_CONTEXT_CODES = {
    getattr(function, "__code__", None): name
    for name, function in (
        (IS_TRACING, is_tracing),
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
        (TRACING_STATE, _get_tracing_state),
        (TO_DLPACK, torch._C._to_dlpack),  # torch.utils.dlpack.to_dlpack is this very function
    )
}
# What is looked for among all calls of Python, by identity: to compare code objects takes longer than most calls.
_CODES = {
    id(code) for code in (*_ENVIRONMENT_CODES, *_CONTEXT_CODES, *memory_files.SERVING_CODES, *asked_settings.CODES)
}
# Parts of Python that read files of their own accord: to import a module, or to show a line of source.
_IMPORT_HOOKS = ("find_spec", "create_module", "exec_module")
_PYTHON_INTERNALS = ("<frozen importlib", "linecache.py", "inspect.py", "traceback.py", "warnings.py", "tokenize.py")


@dataclass(frozen=True)
class AmbientRead:
    """A read of the process: which function read what, and on which line.

    `key` is the name of the environment variable or of the setting, if one was read.
    """

    kind: Kind
    name: str
    line: user_lines.Line
    key: str | None = None


@dataclass(frozen=True)
class AmbientEffect:
    """An ambient read and its effect: harmful if another value led to another answer or another trace."""

    read: AmbientRead
    effect: Effect
    reason: str


@dataclass(frozen=True)
class ContextRead:
    """A question about how the model is run: traced, scripted or with gradients. A trace keeps the one answer."""

    name: str
    line: user_lines.Line


class AmbientRecorder:
    """Records, while entered, what the user's lines read from the process and ask about how the model is run."""

    def __init__(self) -> None:
        self.reads: dict[AmbientRead, None] = {}
        self.contexts: dict[ContextRead, None] = {}

    def __enter__(self) -> Self:
        self._before = sys.getprofile()
        sys.setprofile(self._record)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(self._before)

    def _record(self, frame: FrameType, event: str, function: Any) -> None:
        if event == "call":
            if id(frame.f_code) in _CODES:
                self._record_call(frame)
        elif event == "c_call":
            source = _FUNCTIONS.get(id(function)) or _find_date_source(function)
            if source is not None:
                self._note(*source, frame)
            elif (setting := asked_settings.setting_of_function(function)) is not None:
                self._note_setting(setting, frame)
            elif id(function) in _CONTEXT_FUNCTIONS:
                self._note_context(_CONTEXT_FUNCTIONS[id(function)], frame)

    def _record_call(self, frame: FrameType) -> None:
        # `in` of os.environ is that of all mappings.
        if frame.f_code in _ENVIRONMENT_CODES and isinstance(frame.f_locals.get("self"), type(os.environ)):
            self._note("environment", "os.environ", frame, frame.f_locals.get("key"))
        elif frame.f_code in _CONTEXT_CODES:
            self._note_context(_CONTEXT_CODES[frame.f_code], frame.f_back)
        elif (setting := asked_settings.setting_of_code(frame.f_code)) is not None:
            self._note_setting(setting, frame.f_back)
        elif (name := memory_files.served_function(frame)) is not None:
            self._note("file", name, frame.f_back)

    def _note(self, kind: Kind, name: str, frame: FrameType | None, key: Any = None) -> None:
        line = find_user_line(frame)
        if line is not None:
            self.reads[AmbientRead(kind, name, line, key if type(key) is str else None)] = None

    def _note_setting(self, name: str, frame: FrameType | None) -> None:
        if asked_settings.is_asked_by_user(frame):
            self._note("setting", name, frame, name)

    def _note_context(self, name: str, frame: FrameType | None) -> None:
        if frame is not None and user_lines.is_user(frame.f_code.co_filename):
            self.contexts[ContextRead(name, user_lines.line_at(frame.f_code.co_filename, frame.f_lineno))] = None


def make_alternatives(read: AmbientRead) -> Iterator[tuple[str, AbstractContextManager[Any]]]:
    """Yield named contexts in which the read finds another value; none if it cannot be replaced."""
    match read.kind:
        case "clock":
            for shift in _SHIFTS_S if is_stopwatch(read) else (*_SHIFTS_S, *_CALENDAR_SHIFTS_S):
                yield f"the clock moved by {shift:.0f} s", _move_clock(shift, 0.0)
            yield "a clock that jumps", _move_clock(0.0, _JUMP_S)
        case "environment" if read.key is not None:
            for value in _ENVIRONMENT_VALUES:
                if value != os.environ.get(read.key):
                    change = "not set" if value is None else f"set to {value!r}"
                    yield f"{read.key} {change}", _set_environment(read.key, value)
        case "entropy":
            yield "other random bytes", nullcontext()
        case "setting":
            setting = asked_settings.ASKED_SETTINGS[read.name]
            for other, answer in setting.changes.items():
                replaced = setting.owner, setting.attribute, setting.change_for_users(answer)
                yield f"{read.name}() returning {other}", replace_functions({id(setting.function): replaced})


def is_stopwatch(read: AmbientRead) -> bool:
    """Whether it is a clock that tells how long something takes, and no time of the day."""
    return read.name in _STOPWATCHES


def can_be_replaced(read: AmbientRead) -> bool:
    """Whether `make_alternatives` knows other values for the read."""
    return read.kind in ("clock", "entropy", "setting") or (read.kind == "environment" and read.key is not None)


def reads_process(function: Any) -> bool:
    """Whether a function written in C reads something that an `AmbientRecorder` records."""
    return id(function) in _FUNCTIONS or _find_date_source(function) is not None


@contextmanager
def pretend_tracing() -> Iterator[None]:
    """In the body, torch tells the user's code that it is traced."""

    def get_state() -> Any:
        # torch itself asks too, and would record what there is no trace for.
        return object() if user_lines.is_user(sys._getframe(1).f_code.co_filename) else _get_tracing_state()

    with replace_functions(
        {
            id(is_tracing): (torch.jit, "is_tracing", lambda: True),
            id(_get_tracing_state): (torch._C, "_get_tracing_state", get_state),
        }
    ):
        yield


def _find_date_source(function: Any) -> tuple[Kind, str] | None:
    """Return what a class method of datetime reads, such as `date.today`; None for any other function."""
    name = getattr(function, "__name__", None)
    if name not in _DATES:
        return None
    owner = getattr(function, "__self__", None)
    return ("clock", f"datetime.{name}") if isinstance(owner, type) and issubclass(owner, datetime.date) else None


def find_user_line(frame: FrameType | None) -> user_lines.Line | None:
    """Return the user's line that the read comes from; None if it comes from torch, from Python itself or from us."""
    while frame is not None:
        file = frame.f_code.co_filename
        if user_lines.is_user(file):
            return None if _is_import_hook(frame) else user_lines.line_at(file, frame.f_lineno)
        if user_lines.is_ours(file) or user_lines.is_library_of_torch(file) or file.startswith("<frozen importlib"):
            return None
        if file.endswith(_PYTHON_INTERNALS):
            return None
        frame = frame.f_back
    return None


def _is_import_hook(frame: FrameType | None) -> bool:
    """Whether the frame, or one that called it in the same file, is a hook by which Python finds or loads a module."""
    file = frame.f_code.co_filename if frame is not None else ""
    while frame is not None and frame.f_code.co_filename == file:
        caller = frame.f_back
        if frame.f_code.co_name in _IMPORT_HOOKS and caller is not None:
            return caller.f_code.co_filename.startswith("<frozen importlib")
        frame = caller
    return False


@contextmanager
def _set_environment(key: str, value: str | None) -> Iterator[None]:
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
def _move_clock(shift_s: float, jump_s: float) -> Iterator[None]:
    """In the body, all clocks are `shift_s` ahead, and `jump_s` further ahead after each read."""
    reads = 0

    def offset_s() -> float:
        nonlocal reads
        reads += 1
        return shift_s + reads * jump_s

    with replace_functions(_make_moved_clocks(offset_s)):
        yield


def _make_moved_clocks(offset_s: Callable[[], float]) -> dict[int, tuple[Any, str, Any]]:
    """Return functions and classes that tell another time, in the form that `replace_functions` takes."""
    moved: dict[int, tuple[Any, str, Any]] = {}
    for name in _CLOCKS_S:
        own = getattr(time, name)
        moved[id(own)] = time, name, lambda own=own: own() + offset_s()
    for name in _CLOCKS_NS:
        own = getattr(time, name)
        moved[id(own)] = time, name, lambda own=own: own() + int(offset_s() * 1e9)
    for name, factor in _NUMBERED_CLOCKS.items():
        own = getattr(time, name)
        moved[id(own)] = (
            time, name, lambda clock, own=own, factor=factor: (read := own(clock)) + type(read)(offset_s() * factor)
        )  # fmt: skip
    now, calendars = time.time, {name: getattr(time, name) for name in _CALENDARS}
    for name, own in calendars.items():
        moved[id(own)] = time, name, lambda at=None, own=own: own(now() + offset_s() if at is None else at)
    strftime, localtime, ctime = time.strftime, time.localtime, time.ctime
    moved[id(strftime)] = (
        time, "strftime", lambda form, at=None: strftime(form, localtime(now() + offset_s()) if at is None else at)
    )  # fmt: skip
    moved[id(ctime)] = time, "ctime", lambda at=None: ctime(now() + offset_s() if at is None else at)
    for kind in (datetime.datetime, datetime.date):
        moved[id(kind)] = datetime, kind.__name__, _make_moved_date(kind, offset_s)
    return moved


def _make_moved_date(kind: Any, offset_s: Callable[[], float]) -> type:
    """Return a subclass of `datetime.date` or `datetime.datetime` whose current time is `offset_s` ahead."""

    def method(name: str) -> Any:
        own = getattr(kind, name)
        return classmethod(lambda _, *args, **kwargs: own(*args, **kwargs) + datetime.timedelta(seconds=offset_s()))

    return type(kind.__name__, (kind,), {name: method(name) for name in _DATES if hasattr(kind, name)})


@contextmanager
def replace_functions(replacements: dict[int, tuple[Any, str, Any]]) -> Iterator[None]:
    """Replace objects in the body, in their modules and in every submitted module that imported them.

    The replacements are (module, name, other object), by the identity of the object that is replaced.
    """
    with ExitStack() as stack:
        for owner, name, value in replacements.values():
            stack.enter_context(set_attribute(owner, name, value))
        for module in user_lines.submitted_modules().values():
            for name, value in list(vars(module).items()):
                if id(value) in replacements:
                    stack.enter_context(set_attribute(module, name, replacements[id(value)][2]))
        yield


@contextmanager
def set_attribute(owner: Any, name: str, value: Any) -> Iterator[None]:
    """In the body, the owner has another value. Where it inherits its own, it does so again afterwards."""
    own = vars(owner).get(name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if own is None:
            delattr(owner, name)
        else:
            setattr(owner, name, own)
