"""Reads: where a value leaves a tensor for Python, or for a size inside torch, while a method runs.

What was read can be changed on its way. Python's own conversions are seen by methods put in the place of Tensor's: a
mode of functions would see them too, but turns nn.MultiheadAttention's fast path off, and other values are computed.
"""

import dis
import hashlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache, wraps
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Literal, Self

import numpy as np
import torch
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode

from tracehouse.check.instrumentation.comparands import NO_COMPARANDS, Comparands, collect_comparands, collect_constants
from tracehouse.check.instrumentation.taint import Taint
from tracehouse.eager.call import Call
from tracehouse.introspection import user_lines

# Methods of a tensor that give its values, its size or its memory to Python.
_OF_VALUES = (
    "__bool__", "__int__", "__float__", "__index__", "__complex__", "__contains__", "__array__",
    "item", "tolist", "numpy", "is_nonzero", "equal", "allclose",
)  # fmt: skip
_OF_SIZES = ("__len__", "__iter__")
MEMORY_METHODS = ("data_ptr", "__dlpack__")
IN_TORCH = "in torch"  # is the kind of what an operator reads by itself
# Operators that give a number or a truth, by the method of a tensor that each answers; a function may have called it.
_IN_TORCH = {
    torch.ops.aten._local_scalar_dense: IN_TORCH, torch.ops.aten.is_nonzero: IN_TORCH,
    torch.ops.aten.equal: "equal", torch.ops.aten.allclose: "allclose",
}  # fmt: skip
_OF_READING = {__file__, str(Path(__file__).with_name("tracked_values.py"))}
_KEPT_MAX = 1000  # values of one site, in their order
_LIST_MAX = 4096  # of a longer list, only a hash is kept

# values: of the inputs. sizes: of a shape. constants: of weights, or of what the source made itself.
Dependence = Literal["values", "sizes", "constants"]


@dataclass(frozen=True)
class SourceSpan:
    """The expression that reads: its lines, and the bytes of the first and the last where it begins and ends."""

    line: int
    end_line: int
    column: int
    end_column: int


@dataclass(frozen=True)
class ReadSite:
    """A place in the user's code. Two conversions on one line are two.

    It is told by the expression, not by the instruction: CPython changes that while a function is used.
    """

    file: str
    line: int
    span: SourceSpan | None
    kind: str  # the method of Tensor; `in torch` where an operator reads

    @property
    def shown(self) -> user_lines.Line:
        return user_lines.line_at(self.file, self.line)


@dataclass
class ValueRead:
    """What was read at a site, each time that it was."""

    site: ReadSite
    depends_on: Dependence
    values: list[Any] = field(default_factory=list)
    numbers: frozenset[float] = frozenset()  # that it may be compared with, before it is read or after
    comparands: Comparands = NO_COMPARANDS  # what the model has at hand besides, as far as it is known
    may_be_caught: bool = False  # an error that followed from another value could be caught by the model
    times: int = 0

    @property
    def line(self) -> user_lines.Line:
        return self.site.shown


@dataclass(frozen=True)
class Replacement:
    """Another value in the place of what is read at a site: each time, or the one time alone that is named."""

    site: ReadSite
    to: Callable[[Any], Any]
    time: int | None = None
    times: int = 8  # at most: a loop may go on while what it reads is changed

    def of(self, value: Any, time: int) -> Any:
        applies = time < self.times if self.time is None else time == self.time
        return self.to(value) if applies else value


@dataclass(frozen=True)
class Replay:
    """What was read at a site in another run, in its order."""

    site: ReadSite
    values: Sequence[Any]

    def of(self, value: Any, time: int) -> Any:
        return self.values[time] if time < len(self.values) else value


class ReadRecorder:
    """Notes the reads of one run of a call, while it is entered; changes those that it is told to.

    Without `in_torch`, operators are not watched: what depends on the inputs is not known then, and taken to. `follow`
    makes of a value of the inputs, by the site that reads it, what is handed on where no change is told.
    """

    def __init__(
        self,
        call: Call,
        *changes: Replacement | Replay,
        in_torch: bool = True,
        follow: Callable[[ReadSite, Any], Any] = lambda _, value: value,
    ) -> None:
        self.reads: dict[ReadSite, ValueRead] = {}
        self.taint = Taint(call.tensors.values())
        self._changes = {change.site: change for change in changes}
        self._in_torch = in_torch
        self._follow = follow
        self._depth = 0
        self._recording: Any = None  # the tracer's, kept from going with an error: see `index_forgotten`
        self._entered = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(_in_place_of_tensors_own(self._in_python))
            if self._in_torch:
                stack.enter_context(_Operators(self))
            self._entered = stack.pop_all()
        return self

    def __exit__(self, *raised: object) -> None:
        self._entered.__exit__(*raised)  # type: ignore[arg-type]

    def _in_python(self, kind: str, tensor: torch.Tensor, convert: Callable[[], Any]) -> Any:
        frame = None if self._depth else find_reading_frame(sys._getframe(2))
        if frame is None:
            return convert()
        self._depth += 1
        try:
            value = list(convert()) if kind == "__iter__" else convert()
            if isinstance(value, torch.Tensor):  # a length, while it is traced: Python asks it for an index next
                return value
            noted = self._noted(kind, frame, tensor, value)
            return iter(noted) if kind == "__iter__" else noted
        finally:
            self._depth -= 1

    def after(self, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any], given: Any) -> Any:
        """What an operator gave, or another value in its place."""
        kind = _IN_TORCH.get(operator.overloadpacket)
        if kind is None:
            self.taint.follow(operator, args, kwargs, given)
            return given
        tainted = [arg for arg in args if isinstance(arg, torch.Tensor) and arg in self.taint]
        frame = find_reading_frame(sys._getframe(2)) if tainted and not self._depth else None
        return given if frame is None else self._noted(kind, frame, tainted[0], given)

    def _noted(self, kind: str, frame: FrameType, tensor: torch.Tensor, value: Any) -> Any:
        self._recording = self._recording or torch._C._get_tracing_state()
        site = locate_read(frame, kind)
        read = self.reads.get(site)
        if read is None:
            read = self.reads[site] = ValueRead(site, self._of(kind, tensor), may_be_caught=_may_catch(frame))
            read.numbers = collect_constants(frame.f_code)
            read.comparands = collect_comparands(frame) if read.depends_on == "values" else NO_COMPARANDS
        elif read.depends_on != "values":
            read.depends_on = self._of(kind, tensor)
        read.numbers |= self.taint.numbers_behind(tensor)
        if len(read.values) < _KEPT_MAX:
            read.values.append(_kept_of(kind, tensor, value))
        read.times += 1
        change = self._changes.get(site)
        if change is not None:
            return change.of(value, read.times - 1)
        return self._follow(site, value) if read.depends_on == "values" and kind not in _OF_SIZES else value

    def _of(self, kind: str, tensor: torch.Tensor) -> Dependence:
        if kind in _OF_SIZES:
            return "values" if self.taint.sizes_depend and _follows_a_size_of_values(tensor) else "sizes"
        if not self._in_torch or tensor in self.taint:
            return "values"
        made_by = _traced_value(tensor)
        if made_by is None:
            return "constants"
        if self.taint.sizes_depend and _follows_a_size_of_values(tensor):
            return "values"
        return "sizes" if _upstream(made_by, _SIZES) else "constants"


class _Operators(TorchDispatchMode):
    def __init__(self, reading: ReadRecorder) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._reading = reading

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = func(*args, **(kwargs or {}))
        return self._reading.after(func, args, kwargs or {}, given)


@contextmanager
def _in_place_of_tensors_own(note: Callable[[str, torch.Tensor, Callable[[], Any]], Any]) -> Iterator[None]:
    own = {name: vars(torch.Tensor).get(name) for name in (*_OF_VALUES, *_OF_SIZES, *MEMORY_METHODS)}
    try:
        for name in own:
            setattr(torch.Tensor, name, _noting(name, getattr(torch.Tensor, name), note))
        yield
    finally:
        for name, original in own.items():
            if original is not None:
                setattr(torch.Tensor, name, original)
            elif name in vars(torch.Tensor):
                delattr(torch.Tensor, name)


def _noting(name: str, original: Any, note: Callable[[str, torch.Tensor, Callable[[], Any]], Any]) -> Any:
    @wraps(original)
    def method(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        return note(name, tensor, lambda: original(tensor, *args, **kwargs))

    return method


def find_reading_frame(frame: FrameType | None) -> FrameType | None:
    """The nearest frame of the user's, unless one of ours is nearer: then it is we who read."""
    while frame is not None:
        whose = _whose(frame.f_code.co_filename)
        if whose == "user":
            return frame
        if whose == "ours":
            return None
        frame = frame.f_back
    return None


@lru_cache(maxsize=4096)
def _whose(file: str) -> Literal["user", "ours", "other"]:
    if file in _OF_READING:
        return "other"
    if user_lines.is_user(file):
        return "user"
    return "ours" if user_lines.is_ours(file) else "other"


def _may_catch(frame: FrameType | None) -> bool:
    """Whether a function that is running, of the user's, has an `except` in it.

    An operator that raises while it is traced, where the model catches that, ends the process.
    """
    while frame is not None and _whose(frame.f_code.co_filename) != "ours":
        if _whose(frame.f_code.co_filename) == "user" and _has_except(frame.f_code):
            return True
        frame = frame.f_back
    return False


@lru_cache(maxsize=4096)
def _has_except(code: CodeType) -> bool:
    return any(instruction.opname in ("CHECK_EXC_MATCH", "POP_EXCEPT") for instruction in dis.get_instructions(code))


def locate_read(frame: FrameType, kind: str) -> ReadSite:
    return ReadSite(frame.f_code.co_filename, frame.f_lineno, _span(frame), kind)


def _span(frame: FrameType) -> SourceSpan | None:
    found = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), (None,) * 4)
    line, end_line, column, end_column = found
    if line is None or end_line is None or column is None or end_column is None:
        return None
    return SourceSpan(line, end_line, column, end_column)


def _kept_of(kind: str, tensor: torch.Tensor, value: Any) -> Any:
    if kind == "__iter__":
        return len(value)
    return _kept(tensor.detach().cpu().tolist() if kind in MEMORY_METHODS else value)


def _kept(value: Any) -> Any:
    """What is read, small: equal for equal values."""
    match value:
        case bool() | int() | float() | complex():
            return value
        case np.ndarray():
            return value.shape, hashlib.blake2b(np.ascontiguousarray(value).tobytes(), digest_size=16).hexdigest()
        case list():
            shown = repr(value) if len(value) <= _LIST_MAX else repr(value[:_LIST_MAX])
            return hashlib.blake2b(shown.encode(), digest_size=16).hexdigest()
    return None


# Of a graph that is being recorded.
_SIZES = frozenset({"aten::size", "aten::len", "aten::numel", "aten::dim", "aten::stride", "aten::sym_size"})
_SIZED_BY_VALUES = frozenset({
    "aten::nonzero", "aten::nonzero_numpy", "aten::masked_select", "aten::index", "aten::unique_dim",
    "aten::_unique2", "aten::_unique", "aten::unique_consecutive", "aten::repeat_interleave", "aten::bincount",
    "aten::argwhere", "aten::unique_dim_consecutive",
})  # fmt: skip
_VALUES_MAX = 20_000


@contextmanager
def forget_stale_index() -> Iterator[None]:
    """Around a trace that may raise.

    The tracer puts the value of an index by for the operator that is to take it. Where that raised, the next operator
    of any trace takes it, out of a graph that is no more: the process ends. So the graph is kept until it was taken.
    """
    kept: list[Any] = []
    hook = register_module_forward_pre_hook(lambda *_: kept.append(torch._C._get_tracing_state()))
    try:
        yield
    except BaseException:
        _take_index()
        raise
    finally:
        hook.remove()


def _take_index() -> None:
    with suppress(Exception):  # it is taken, and refused
        torch.jit.trace(
            lambda x, place: x[place], (torch.zeros(1), torch.zeros((), dtype=torch.int64)), check_trace=False
        )


def _traced_value(tensor: torch.Tensor) -> Any:
    if torch._C._get_tracing_state() is None:
        return None
    with suppress(Exception):  # it was not recorded
        return torch._C._get_value_trace(tensor)  # type: ignore[attr-defined]
    return None


def _follows_a_size_of_values(tensor: torch.Tensor) -> bool:
    value = _traced_value(tensor)
    return value is not None and _upstream(value, _SIZED_BY_VALUES)


def _upstream(value: Any, kinds: frozenset[str]) -> bool:
    """Whether a node of those kinds is among those that a value of the graph is made by."""
    seen: set[int] = set()
    waiting: list[Any] = [value]
    while waiting and len(seen) < _VALUES_MAX:
        one = waiting.pop()
        if one.unique() not in seen:
            seen.add(one.unique())
            if one.node().kind() in kinds:
                return True
            waiting += one.node().inputs()
    return False
