"""Unrecorded writes: the model changes a tensor in a way that torch's tracer does not see.

The tracer records operators of its own thread, by the tensors that they take. So it misses what writes into a tensor's
memory past that tensor (through `tensor.data`, a storage or NumPy's view), a tensor that is made of a storage, what
Python does element by element, and all that another thread does.
"""

import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any, Self

import torch
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode

from tracehouse.check.instrumentation.ambient_reads import set_attribute
from tracehouse.introspection import user_lines

# Methods of a tensor that call a Python function on each of its elements.
ON_EACH_ELEMENT = ("apply_", "map_", "map2_")

# Methods of a tensor, and what a trace lacks of them.
_METHODS = {
    **dict.fromkeys(ON_EACH_ELEMENT, "calls Python for each element"),
    **dict.fromkeys(("resize_", "resize_as_"), "gives a tensor that a trace keeps as it was on the example"),
}
_READ_ONLY = "read-only"  # what NumPy says where something writes into an array that must not be written to
_POOL_MODULE = "concurrent.futures.thread"  # its threads outlive the call, so each task is watched by itself

# Operators that give parts of a tensor which share no count of writes with it. The kernels of recurrent networks use
# them, and write into the parts.
_UNSAFE = {
    torch.ops.aten.unsafe_chunk, torch.ops.aten.unsafe_split, torch.ops.aten.unsafe_split_with_sizes,
    torch.ops.aten._unsafe_view,
}  # fmt: skip

# They give a tensor the memory of a storage. A trace goes on with what the tensor was before: memory without values.
_OF_STORAGE = {torch.ops.aten.set_.source_Storage, torch.ops.aten.set_.source_Storage_storage_offset}


@dataclass(frozen=True)
class UnrecordedWrite:
    """What a trace does not record, as a clause, and on which line the model does it; None if that is not known."""

    what: str
    line: user_lines.Line | None


_Note = Callable[[str, user_lines.Line | None], None]


class WriteWatcher:
    """Notes, while entered, what the model does that a trace does not record. NumPy's views are read-only meanwhile."""

    def __init__(self) -> None:
        self.found: dict[UnrecordedWrite, None] = {}

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(_watch_threads(self._note))
            stack.enter_context(_watch_methods(self._note))
            stack.enter_context(_SharedMemoryWatcher(self._note))
            self._watching = stack.pop_all()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._watching.__exit__(*raised)

    def note_error(self, error: str, line: user_lines.Line | None) -> None:
        """Note a write into a read-only view, if the model's error says that there was one."""
        if _READ_ONLY in error:
            self._note("it writes into NumPy's view of a tensor", line)

    def _note(self, what: str, line: user_lines.Line | None) -> None:
        self.found[UnrecordedWrite(what, line)] = None


class _SharedMemoryWatcher(TorchDispatchMode):
    """Notes operators that write into memory which another tensor has too, and does not know of the write.

    Views and `detach` share a count of writes with their tensor (`Tensor._version`). What `.data`, a storage and NumPy
    give does not, and the tracer does not know either that it is the same memory.
    """

    def __init__(self, note: _Note) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._note = note
        self._seen: dict[int, dict[int, weakref.ref[torch.Tensor]]] = {}  # by the address of their memory
        self._parts: dict[int, weakref.ref[torch.Tensor]] = {}  # which torch's own kernels write into
        self._writes: list[tuple[torch.Tensor, int, list[tuple[torch.Tensor, int]], user_lines.Line | None]] = []

    def __exit__(self, *raised: Any) -> None:
        self._judge_writes()
        super().__exit__(*raised)  # type: ignore[no-untyped-call]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self._judge_writes()
        if func in _OF_STORAGE:
            line = user_lines.line_of_frame(sys._getframe(1))
            self._note("it makes a tensor of a storage, as `copy.deepcopy`, `copy.copy` and `pickle` do", line)
        for tensor in _written_by(func, args, kwargs):
            if id(tensor) in self._parts and self._parts[id(tensor)]() is tensor:
                continue
            others = [(one, one._version) for one in self._of_same_memory(tensor)]
            self._writes.append((tensor, tensor._version, others, user_lines.line_of_frame(sys._getframe(1))))
        outputs = func(*args, **kwargs)
        is_unsafe = func.overloadpacket in _UNSAFE
        for tensor in _tensors_in(outputs if is_unsafe else (args, kwargs, outputs)):
            if address := _address_of(tensor):
                seen = self._parts if is_unsafe else self._seen.setdefault(address, {})
                seen[id(tensor)] = weakref.ref(tensor)
        return outputs

    def _of_same_memory(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        alive = [one() for one in self._seen.get(_address_of(tensor), {}).values()]
        return [one for one in alive if one is not None and one is not tensor]

    def _judge_writes(self) -> None:
        """Judge the last operator's writes: torch counts them when it has ended."""
        for tensor, version, others, line in self._writes:
            if tensor._version != version and any(other._version == before for other, before in others):
                self._note("it writes into the memory of a tensor through `.data`, a storage or NumPy", line)
        self._writes = []


def _written_by(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[torch.Tensor]:
    for place, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            given = args[place] if place < len(args) else kwargs.get(argument.name)
            yield from _tensors_in(given)


def _tensors_in(values: Any) -> Iterator[torch.Tensor]:
    return (one for one in _pytree.tree_leaves(values) if isinstance(one, torch.Tensor))


def _address_of(tensor: torch.Tensor) -> int:
    """Return where the tensor's memory begins; 0 if it has none of its own."""
    is_plain = tensor.layout == torch.strided and tensor.device.type != "meta"
    return tensor.untyped_storage().data_ptr() if is_plain else 0


class _ThreadWatcher(TorchDispatchMode):
    """Notes every operator of another thread."""

    def __init__(self, note: _Note) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._note = note

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._note("another thread computes with tensors", user_lines.line_of_frame(sys._getframe(1)))
        return func(*args, **(kwargs or {}))


@contextmanager
def _watch_threads(note: _Note) -> Iterator[None]:
    """Note what threads compute that this one starts, and tasks that it hands to a pool."""
    start, submit, own = threading.Thread.start, ThreadPoolExecutor.submit, threading.get_ident()

    def watched(task: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            with _ThreadWatcher(note):
                return task(*args, **kwargs)

        return run

    def start_watched(thread: threading.Thread) -> None:
        is_of_pool = getattr(getattr(thread, "_target", None), "__module__", None) == _POOL_MODULE
        if threading.get_ident() == own and not is_of_pool:
            thread.run = watched(thread.run)  # type: ignore[method-assign]
        start(thread)

    def submit_watched(pool: ThreadPoolExecutor, task: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return submit(pool, watched(task) if threading.get_ident() == own else task, *args, **kwargs)

    with (
        set_attribute(threading.Thread, "start", start_watched),
        set_attribute(ThreadPoolExecutor, "submit", submit_watched),
    ):
        yield


@contextmanager
def _watch_methods(note: _Note) -> Iterator[None]:
    """Give read-only views to this thread, and note methods and assignments that a trace has not."""
    to_numpy, own = torch.Tensor.numpy, threading.get_ident()

    def give_read_only(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        view = to_numpy(tensor, *args, **kwargs)
        if threading.get_ident() == own:
            view.flags.writeable = False
        return view

    def watched(name: str) -> Any:
        original = getattr(torch.Tensor, name)

        @wraps(original)
        def method(*args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() == own:
                note(f"Tensor.{name} {_METHODS[name]}", user_lines.line_of_frame(sys._getframe(1)))
            return original(*args, **kwargs)

        return method

    with ExitStack() as stack:
        stack.enter_context(set_attribute(torch.Tensor, "numpy", give_read_only))
        for name in _METHODS:
            stack.enter_context(set_attribute(torch.Tensor, name, watched(name)))
        stack.enter_context(set_attribute(torch.Tensor, "data", _watch_data(note, own)))
        yield


def _watch_data(note: _Note, own: int) -> property:
    """Return `Tensor.data`, which notes where a tensor is given other memory. A module that is moved gives the same."""
    data: Any = torch.Tensor.data  # a descriptor

    def give_memory(tensor: torch.Tensor, other: torch.Tensor) -> None:
        if threading.get_ident() == own and _address_of(other) != _address_of(tensor):
            note("it gives a tensor other memory through `.data`", user_lines.line_of_frame(sys._getframe(1)))
        data.__set__(tensor, other)

    return property(data.__get__, give_memory)
