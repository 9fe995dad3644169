"""Layout reads: which line asks a tensor for its strides, its place in memory or its gradient, and what it gets."""

import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from tracehouse.introspection import user_lines

_METHODS = (
    "stride", "storage_offset", "is_contiguous", "is_pinned", "is_conj", "is_neg", "_is_view", "dim_order",
    "untyped_storage", "storage", "view", "view_as",
)  # fmt: skip
_FUNCTIONS = ("is_conj", "is_neg")
_ATTRIBUTES = ("requires_grad", "grad_fn", "is_leaf", "_base", "grad", "retains_grad")
_READS: dict[Any, str] = {
    **{getattr(torch.Tensor, name): f"Tensor.{name}()" for name in _METHODS if hasattr(torch.Tensor, name)},
    **{getattr(torch, name): f"torch.{name}()" for name in _FUNCTIONS},
    **{getattr(torch.Tensor, name).__get__: f"Tensor.{name}" for name in _ATTRIBUTES if hasattr(torch.Tensor, name)},
}
_GRAD_MODE = "torch.is_grad_enabled"


@dataclass(frozen=True)
class LayoutRead:
    """A question about a layout or about gradients, by its name in torch, on the user's line that asks it."""

    name: str
    line: user_lines.Line


class LayoutReadRecorder(TorchFunctionMode):
    """Records, while entered, each such question with its answer, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[tuple[LayoutRead, object]] = []

    def __enter__(self) -> "LayoutReadRecorder":
        self._before = sys.getprofile()
        sys.setprofile(self._record_call)
        return super().__enter__()  # type: ignore[no-untyped-call, no-any-return]

    def __exit__(self, *raised: Any) -> None:
        sys.setprofile(self._before)
        super().__exit__(*raised)  # type: ignore[no-untyped-call]

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = _name_of(func)
        if name is None:
            return func(*args, **(kwargs or {}))
        answer: object = "an error"
        try:
            result = func(*args, **(kwargs or {}))
            answer = _describe(result)
        finally:
            self._note(name, answer, sys._getframe(1))
        return result

    def _record_call(self, frame: Any, event: str, function: Any) -> None:
        if event == "c_call" and function is torch.is_grad_enabled:
            self._note(_GRAD_MODE, torch.is_grad_enabled(), frame)

    def _note(self, name: str, answer: object, frame: Any) -> None:
        line = user_lines.line_of_frame(frame)
        if line is not None:
            self.reads.append((LayoutRead(name, line), answer))


def find_first_difference(some: LayoutReadRecorder, others: LayoutReadRecorder) -> LayoutRead | None:
    """Return the first question that got another answer in the second call than in the first; None if none did."""
    for (read, answer), (other, other_answer) in zip(some.reads, others.reads, strict=False):
        if read != other:
            return None  # the two go different ways, and no question that was seen is why
        if answer != other_answer:
            return read
    return None


def _name_of(func: Any) -> str | None:
    with suppress(TypeError):  # not everything can be a key
        return _READS.get(func)
    return None


def _describe(result: Any) -> object:
    """Return what can be compared of the answer: a number, a boolean or several, or which kind of thing it is."""
    if isinstance(result, torch.UntypedStorage | torch.TypedStorage):
        return len(result)
    return result if isinstance(result, bool | int | str | tuple | None) else "something"
