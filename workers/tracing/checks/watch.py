"""Watching which attributes of a model are read in a call before the call itself has written them."""

import sys
from collections.abc import Iterator, Set
from contextlib import contextmanager
from typing import Any

import torch

from workers.tracing import lines

Key = tuple[str, str]  # a submodule's path and an attribute's name


@contextmanager
def reads(module: torch.nn.Module, watched: Set[Key]) -> Iterator[dict[Key, lines.Line | None]]:
    """Those that are read, each with the line; one that cannot be watched counts as read."""
    seen: dict[Key, lines.Line | None] = {}
    kinds: list[tuple[torch.nn.Module, type]] = []
    for path in {path for path, _ in watched}:
        part = module.get_submodule(path)
        names = {name for other, name in watched if other == path}
        try:
            kind = type(part)
            part.__class__ = _watching(kind, path, names, seen)
            kinds.append((part, kind))
        except Exception:  # noqa: BLE001 - submitted code: a metaclass, slots or __init_subclass__ refuses
            seen |= {(path, name): None for name in names}
    try:
        yield seen
    finally:
        for part, kind in kinds:
            part.__class__ = kind


class _Quiet:
    """Before the model's class, so that an __init_subclass__ of the source's is not told of the class that watches."""

    __slots__ = ("__dict__", "__weakref__")  # as a module has them: the class of an object is kept to its layout

    def __init_subclass__(cls, **_: Any) -> None:
        pass


def _watching(kind: Any, path: str, names: Set[str], seen: dict[Key, lines.Line | None]) -> type:
    written: set[str] = set()
    writing = 0

    def get(self: Any, name: str) -> Any:
        if name in names and not writing and name not in written and (path, name) not in seen:
            seen[path, name] = lines.of_frame(sys._getframe(1))
        return kind.__getattribute__(self, name)

    def put(self: Any, name: str, value: Any) -> None:
        nonlocal writing
        writing += 1  # torch looks whether a buffer is there already
        try:
            kind.__setattr__(self, name, value)
        finally:
            writing -= 1
        written.add(name)

    namespace = {"__getattribute__": get, "__setattr__": put, "__module__": kind.__module__}
    # Not by calling the metaclass: one that keeps a register may refuse a name that it knows.
    watching: type = type.__new__(type(kind), kind.__name__, (_Quiet, kind), namespace)
    return watching
