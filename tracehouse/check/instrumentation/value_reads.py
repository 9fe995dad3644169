"""Value reads: the places where a value passes from a tensor to Python, or to a size in torch, while a method runs.

A value can be replaced on its way. Conversions by Python are recorded by methods put in the place of Tensor's own. A
mode of functions (TorchFunctionMode) would record them too, but it turns off the fast path of nn.MultiheadAttention,
and other values would be computed.
"""

import dis
import hashlib
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from functools import lru_cache, wraps
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Literal, Self

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tracehouse.check.instrumentation import recorded_graph
from tracehouse.check.instrumentation.comparands import NO_COMPARANDS, Comparands, collect_comparands, collect_constants
from tracehouse.check.instrumentation.random_operators import DrawRecorder, draws_random_numbers
from tracehouse.check.instrumentation.taint import Taint
from tracehouse.eager.call import Call
from tracehouse.introspection import user_lines

# Methods of a tensor that give its values, its size or its memory to Python.
_VALUE_METHODS = (
    "__bool__", "__int__", "__float__", "__index__", "__complex__", "__contains__", "__array__",
    "item", "tolist", "numpy", "is_nonzero", "equal", "allclose",
)  # fmt: skip
_SIZE_METHODS = ("__len__", "__iter__")
MEMORY_METHODS = ("data_ptr", "__dlpack__")
_BYTES_METHODS = ("untyped_storage", "storage", "__reduce_ex__")  # they give all of its bytes, to pickle for one
IN_TORCH = "in torch"  # the kind of a read that an operator makes by itself
# Operators that give a number or a truth, and the method of a tensor that each stands for when a function calls it.
_IN_TORCH = {
    torch.ops.aten._local_scalar_dense: IN_TORCH, torch.ops.aten.is_nonzero: IN_TORCH,
    torch.ops.aten.equal: "equal", torch.ops.aten.allclose: "allclose",
}  # fmt: skip
# Frames of these files stand between the user's code and the read. They are passed over, not taken for ours.
RECORDING_FILES = {
    str(Path(__file__).with_name(name))
    for name in ("value_reads.py", "tracked_values.py", "value_follower.py", "followed_code.py")
}
_VALUES_MAX = 1000  # of one site, the first so many values are recorded
_LIST_MAX = 4096  # of a longer list, only the first so many elements are told apart
_KEPT_MAX_BYTES = 65536  # a longer list or array is not kept, so it cannot be replayed; a choice

NOT_KEPT = object()

# What a value that was read follows from: the values of the inputs, their sizes, or neither (such as weights).
Dependence = Literal["values", "sizes", "constants"]
# Records a conversion, by the name of the method, the tensor and the original conversion; returns what Python gets.
_RecordConversion = Callable[[str, torch.Tensor, Callable[[], Any]], Any]


@dataclass(frozen=True)
class SourceSpan:
    """The place of an expression: its lines from 1, and the byte offsets in the first and the last line, from 0."""

    line: int
    end_line: int
    column: int
    end_column: int


@dataclass(frozen=True)
class ReadSite:
    """A place in the user's code where a value is read; two conversions on one line are two sites.

    The expression identifies it and not the instruction, because CPython rewrites instructions while a function runs.
    """

    file: str
    line: int
    span: SourceSpan | None
    kind: str  # the name of the method of Tensor, or IN_TORCH

    @property
    def source_line(self) -> user_lines.Line:
        """The line of the site, with its text."""
        return user_lines.line_at(self.file, self.line)


@dataclass
class ValueRead:
    """Everything that was read at one site in one run."""

    site: ReadSite
    depends_on: Dependence
    values: list[Any] = field(default_factory=list)  # numbers as they are, and digests of lists and arrays
    # What was read, to replay it; NOT_KEPT if it is too large.
    kept: list[Any] = field(default_factory=list, compare=False, repr=False)
    numbers: frozenset[float] = frozenset()  # numbers that it may be compared with, in torch before or in Python after
    comparands: Comparands = NO_COMPARANDS  # numbers that the model has at hand besides
    may_be_caught: bool = False  # whether the model could catch an error that another value leads to
    times: int = 0  # how often it was read
    in_eager: bool = True  # whether the eager model reads there: a size that values decide is a number to it

    @property
    def line(self) -> user_lines.Line:
        """The line that reads."""
        return self.site.source_line

    @property
    def replay(self) -> "Replay | None":
        """What gives another run the values of this one; None if they were not kept."""
        if len(self.kept) < self.times or any(one is NOT_KEPT for one in self.kept):
            return None
        return Replay(self.site, self.kept)


@dataclass(frozen=True)
class Replacement:
    """Replaces what is read at a site by another value: each time, or only at the given `places`, from 0."""

    site: ReadSite
    change: Callable[[Any], Any]
    places: Collection[int] | None = None
    times: int = 8  # only the first so many times, because a loop may go on for as long as its value is replaced

    def apply(self, value: Any, time: int) -> Any:
        """Return what Python gets for a value that is read for the time `time`, from 0."""
        applies = time < self.times if self.places is None else time in self.places
        return self.change(value) if applies else value


@dataclass(frozen=True)
class Replay:
    """Replaces what is read at a site by the values that another run read there, in their order."""

    site: ReadSite
    values: Sequence[Any]

    def apply(self, value: Any, time: int) -> Any:
        """Return the value of the other run for the time `time`, from 0; `value` itself if that run read fewer."""
        return deepcopy(self.values[time]) if time < len(self.values) else value


class ReadRecorder:
    """Records the value reads of one run of a call while entered, and replaces the values of the given sites.

    Without `in_torch`, operators are not watched. Then a value counts as dependent on the inputs' values, unless the
    graph of a trace shows that it is computed from sizes alone. `track` is called with the site and the value of each
    other read that depends on the inputs' values, and returns what Python gets.
    """

    def __init__(
        self,
        call: Call,
        *replacements: Replacement | Replay,
        in_torch: bool = True,
        track: Callable[[ReadSite, Any], Any] = lambda _, value: value,
    ) -> None:
        self.reads: dict[ReadSite, ValueRead] = {}
        self.taint = Taint(call.tensors.values())
        self._draws = DrawRecorder()
        self._replacements = {one.site: one for one in replacements}
        self._in_torch = in_torch
        self._track = track
        self._depth = 0
        self._thread = threading.get_ident()
        self._graph: Any = None  # the tracer's, kept alive beyond an error: see `recorded_graph`
        self._entered = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(_patch_tensor_methods(self._record_conversion))
            if self._in_torch:
                self._draws.advance()
                stack.callback(self._draws.note_setting)
                stack.enter_context(_OperatorRecorder(self))
            self._entered = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._entered.__exit__(*error)  # type: ignore[arg-type]

    def _record_conversion(self, kind: str, tensor: torch.Tensor, convert: Callable[[], Any]) -> Any:
        frame = None if self._depth else find_reading_frame(sys._getframe(2))
        if frame is None:
            return convert()
        self._depth += 1
        try:
            value = list(convert()) if kind == "__iter__" else convert()
            if isinstance(value, torch.Tensor):  # a length while tracing: Python calls its __index__ next
                return value
            replaced = self._record(kind, frame, tensor, value)
            return iter(replaced) if kind == "__iter__" else replaced
        finally:
            self._depth -= 1

    @property
    def draws(self) -> Sequence[str]:
        """The order in which random numbers were drawn and generators were set, as far as operators are watched."""
        return self._draws.events

    def run_operator(self, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator, and return what `record_operator` says of it."""
        draws = draws_random_numbers(operator, args, kwargs)
        if draws:
            self._draws.note_setting()
        outputs = operator(*args, **kwargs)
        if draws:
            self._draws.note_draw(operator, outputs)
        return self.record_operator(operator, args, kwargs, outputs)

    def record_operator(self, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any], outputs: Any) -> Any:
        """Return what an operator gave, or the value that replaces it if the operator reads one."""
        kind = _IN_TORCH.get(operator.overloadpacket)
        if kind is None:
            self.taint.propagate(operator, args, kwargs, outputs)
            return outputs
        tainted = [arg for arg in args if isinstance(arg, torch.Tensor) and arg in self.taint]
        frame = find_reading_frame(sys._getframe(2)) if tainted and not self._depth else None
        return outputs if frame is None else self._record(kind, frame, tainted[0], outputs)

    def _record(self, kind: str, frame: FrameType, tensor: torch.Tensor, value: Any) -> Any:
        self._graph = self._graph or torch._C._get_tracing_state()
        site = locate_read(frame, kind)
        read = self.reads.get(site)
        if read is None:
            read = self.reads[site] = ValueRead(
                site, self._find_dependence(kind, tensor), may_be_caught=_may_catch(frame)
            )
            read.numbers = collect_constants(frame.f_code)
            read.comparands = collect_comparands(frame) if read.depends_on == "values" else NO_COMPARANDS
        elif read.depends_on != "values":
            read.depends_on = self._find_dependence(kind, tensor)
        read.numbers |= self.taint.find_numbers(tensor)
        if len(read.values) < _VALUES_MAX:
            read.values.append(_summarize_read(kind, tensor, value))
            read.kept.append(_keep(kind, value))
        read.times += 1
        replacement = self._replacements.get(site)
        if replacement is not None:
            return replacement.apply(value, read.times - 1)
        if read.depends_on != "values" or kind in _SIZE_METHODS:
            return value
        tracked = self._track(site, value)
        return value if kind == IN_TORCH else tracked  # an operator takes nothing else

    def _find_dependence(self, kind: str, tensor: torch.Tensor) -> Dependence:
        if kind in _SIZE_METHODS:
            return "values" if self._follows_a_data_dependent_size(tensor) else "sizes"
        if self._in_torch and tensor in self.taint:
            return "values"
        if threading.get_ident() != self._thread:  # neither operators nor the graph of another thread are seen here
            return "values"
        traced = recorded_graph.find_value(tensor)
        if not self._in_torch:
            return "sizes" if traced is not None and recorded_graph.follows_sizes_alone(traced) else "values"
        if traced is None:
            return "constants"
        if self._follows_a_data_dependent_size(tensor):
            return "values"
        return "sizes" if recorded_graph.follows_sizes(traced) else "constants"

    def _follows_a_data_dependent_size(self, tensor: torch.Tensor) -> bool:
        return self.taint.sizes_depend and recorded_graph.follows_a_data_dependent_size(tensor)


class _OperatorRecorder(TorchDispatchMode):
    def __init__(self, recorder: ReadRecorder) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._recorder = recorder

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self._recorder.run_operator(func, args, kwargs or {})


@contextmanager
def _patch_tensor_methods(record: _RecordConversion) -> Iterator[None]:
    own = {
        name: vars(torch.Tensor).get(name)
        for name in (*_VALUE_METHODS, *_SIZE_METHODS, *MEMORY_METHODS, *_BYTES_METHODS)
    }
    try:
        for name in own:
            setattr(torch.Tensor, name, _make_recording_method(name, getattr(torch.Tensor, name), record))
        yield
    finally:
        for name, original in own.items():
            if original is not None:
                setattr(torch.Tensor, name, original)
            elif name in vars(torch.Tensor):
                delattr(torch.Tensor, name)


def _make_recording_method(name: str, original: Any, record: _RecordConversion) -> Any:
    @wraps(original)
    def method(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        return record(name, tensor, lambda: original(tensor, *args, **kwargs))

    return method


def find_reading_frame(frame: FrameType | None) -> FrameType | None:
    """Return the nearest frame of the user's code; None if one of ours is nearer, because then it is we who read."""
    while frame is not None:
        owner = find_owner(frame.f_code.co_filename)
        if owner == "user":
            return frame
        if owner == "ours":
            return None
        frame = frame.f_back
    return None


@lru_cache(maxsize=4096)
def find_owner(file: str) -> Literal["user", "ours", "other"]:
    """Return whose a file is; ours that only stand between the user's code and a read are not counted as ours."""
    if file in RECORDING_FILES:
        return "other"
    if user_lines.is_user(file):
        return "user"
    return "ours" if user_lines.is_ours(file) else "other"


def _may_catch(frame: FrameType | None) -> bool:
    """Whether one of the user's running functions has an `except`.

    If an operator raises while it is traced and the model catches the error, the process ends.
    """
    while frame is not None and find_owner(frame.f_code.co_filename) != "ours":
        if find_owner(frame.f_code.co_filename) == "user" and _has_except(frame.f_code):
            return True
        frame = frame.f_back
    return False


@lru_cache(maxsize=4096)
def _has_except(code: CodeType) -> bool:
    return any(instruction.opname in ("CHECK_EXC_MATCH", "POP_EXCEPT") for instruction in dis.get_instructions(code))


def locate_read(frame: FrameType, kind: str) -> ReadSite:
    """Return the site of the expression that a frame is executing."""
    return ReadSite(frame.f_code.co_filename, frame.f_lineno, _find_span(frame), kind)


def _find_span(frame: FrameType) -> SourceSpan | None:
    position = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), (None,) * 4)
    line, end_line, column, end_column = position
    if line is None or end_line is None or column is None or end_column is None:
        return None
    return SourceSpan(line, end_line, column, end_column)


def _summarize_read(kind: str, tensor: torch.Tensor, value: Any) -> Any:
    if kind == "__iter__":
        return len(value)
    return _summarize(tensor.detach().cpu().tolist() if kind in (*MEMORY_METHODS, *_BYTES_METHODS) else value)


def _keep(kind: str, value: Any) -> Any:
    """Return a copy of what was read; NOT_KEPT for rows and addresses, which belong to this run alone."""
    if kind in ("__iter__", *MEMORY_METHODS):
        return NOT_KEPT
    match value:
        case bool() | int() | float() | complex():
            return value
        case np.ndarray() if value.nbytes <= _KEPT_MAX_BYTES:
            return value.copy()
        case list() if len(value) <= _LIST_MAX and len(repr(value)) <= _KEPT_MAX_BYTES:
            return deepcopy(value)
    return NOT_KEPT


def _summarize(value: Any) -> Any:
    """Return something small that is equal for equal values: a number as it is, and a digest of a list or an array."""
    match value:
        case bool() | int() | float() | complex():
            return value
        case np.ndarray():
            return value.shape, hashlib.blake2b(np.ascontiguousarray(value).tobytes(), digest_size=16).hexdigest()
        case list():
            return hashlib.blake2b(repr(value[:_LIST_MAX]).encode(), digest_size=16).hexdigest()
    return None
