"""Known layouts: an operator on operands of layouts that it had before gives results of the layouts that it gave then.

torch works each layout out anew, with the conditions on symbolic sizes that it takes. Within a case these were met at
the first call, so a layer that repeats adds nothing but new tensors.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from tracehouse.check.prove.operand_keys import tensors_in
from tracehouse.check.prove.symbolic_layouts import is_contiguous, is_laid_out_as_new, note_contiguous
from tracehouse.check.prove.symbols import (
    SYMBOLIC,
    empty_of_layout,
    expression_of,
    has_only_a_layout,
    view_of_layout,
)
from tracehouse.check.prove.tensor_memory import storage_of

_Run = Callable[[Any, Sequence[Any], dict[str, Any]], Any]
_PLAIN = (bool, int, float, complex, str, torch.dtype, torch.device, torch.layout, torch.memory_format, type(None))

_CHANGING_LAYOUTS = {"aten::resize_", "aten::resize_as_", "aten::_resize_output_", "aten::set_"}


class _NoKey(Exception):
    """The operands are more than layouts and numbers."""


@dataclass(frozen=True)
class _Layout:
    """The layout of a tensor in a memory of its own; without strides, that of a contiguous one."""

    sizes: Sequence[int | torch.SymInt]
    strides: Sequence[int | torch.SymInt] | None
    dtype: torch.dtype
    device: torch.device

    def make(self, mode: Any, _: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return a new tensor without values of this layout."""
        tensor = empty_of_layout(mode, self.sizes, self.strides, self.dtype, self.device)
        if self.strides is None:
            note_contiguous(tensor)
        return tensor


@dataclass(frozen=True)
class _View:
    """The layout of a tensor in the memory of the operator's only tensor."""

    sizes: Sequence[int | torch.SymInt]
    strides: Sequence[int | torch.SymInt]
    offset: int | torch.SymInt
    is_contiguous: bool

    def make(self, _: Any, operands: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return a tensor without values of this layout, in the operand's memory."""
        tensor = view_of_layout(operands[0], self.sizes, self.strides, self.offset)
        if self.is_contiguous:
            note_contiguous(tensor)
        return tensor


@dataclass(frozen=True)
class _Operand:
    """The result is an operand, into which the operator wrote, and which has the layout that it had before."""

    place: int

    def make(self, _: Any, operands: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return the operand."""
        return operands[self.place]


@dataclass(frozen=True)
class _Results:
    """The layouts of an operator's results: of one tensor, or of those in a tuple or a list."""

    kind: type[Any]
    each: Sequence[_Layout | _View | _Operand]

    def make(self, mode: Any, operands: Sequence[torch.Tensor]) -> Any:
        """Return new tensors without values of these layouts."""
        results = [one.make(mode, operands) for one in self.each]
        return results[0] if issubclass(self.kind, torch.Tensor) else self.kind(results)


class KnownLayouts:
    """The layouts that operators gave in the runs of one case."""

    def __init__(self, mode: Any) -> None:
        """`mode` makes the tensors without values."""
        self._mode = mode
        self._known: dict[Hashable, _Results] = {}

    def run(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], run: _Run) -> Any:
        """Return the operator's results by the layouts that are known, or those of `run`."""
        try:
            key = _call_key(func, args, kwargs)
        except _NoKey:
            return run(func, args, kwargs)
        operands = [*tensors_in([*args, *kwargs.values()])]
        offsets = tuple(_key_of(one.storage_offset()) for one in operands)
        known = self._known.get(key) or self._known.get((key, offsets))
        if known is not None:
            return known.make(self._mode, operands)
        result = run(func, args, kwargs)
        results = result if isinstance(result, list | tuple) else [result]
        if all(isinstance(one, torch.Tensor) and has_only_a_layout(one) for one in results):
            if any(result is one for one in operands):
                # An `out` that was too small has another layout now.
                if func._schema.name not in _CHANGING_LAYOUTS and _call_key(func, args, kwargs) == key:
                    self._known[key] = _Results(type(result), [_Operand(_place_of(result, operands))])
            elif views := _views(results, operands):
                self._known[key, offsets] = _Results(type(result), views)
            elif layouts := _layouts(results, operands):
                # Where an operand begins in its memory says nothing of the layout of a result in a memory of its own.
                self._known[key] = _Results(type(result), layouts)
        return result


def _call_key(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Hashable:
    """Return what the layouts of a call's results follow from. Raises _NoKey."""
    return func, _key_of(args), tuple((name, _key_of(value)) for name, value in sorted(kwargs.items()))


def _place_of(result: torch.Tensor, operands: Sequence[torch.Tensor]) -> int:
    return next(place for place, one in enumerate(operands) if one is result)


def _key_of(value: Any) -> Hashable:
    """Return what a layout follows from. Raises _NoKey."""
    kind = type(value)
    if kind is int:  # as most values are
        return kind, value
    if isinstance(value, torch.Tensor):
        if not has_only_a_layout(value):
            raise _NoKey
        return value.dtype, value.device, tuple(map(_key_of, value.shape)), tuple(map(_key_of, value.stride()))
    if isinstance(value, SYMBOLIC):
        return kind, expression_of(value)
    if isinstance(value, list | tuple):
        return "list", *map(_key_of, value)
    if not isinstance(value, _PLAIN):
        raise _NoKey
    return kind, value  # True and 1 are equal in Python, and are not the same operand


def _views(results: Sequence[torch.Tensor], operands: Sequence[torch.Tensor]) -> list[_View]:
    """Return the layouts of results in the memory of the only operand; none where one is elsewhere, or the operand."""
    if len(operands) != 1 or any(one is operands[0] or storage_of(one) != storage_of(operands[0]) for one in results):
        return []
    if any(one.dtype != operands[0].dtype for one in results):
        return []
    return [_View([*one.shape], [*one.stride()], one.storage_offset(), is_contiguous(one)) for one in results]


def _layouts(results: Sequence[torch.Tensor], operands: Sequence[torch.Tensor]) -> list[_Layout]:
    """Return the layouts of results that have a memory each; none where one shares its memory."""
    storages = {storage_of(one) for one in results}
    if len(storages) < len(results) or storages & {storage_of(one) for one in operands}:
        return []
    if any(type(one.storage_offset()) is not int or one.storage_offset() for one in results):
        return []
    return [
        _Layout([*one.shape], None if is_laid_out_as_new(one) else [*one.stride()], one.dtype, one.device)
        for one in results
    ]
