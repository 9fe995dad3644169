"""Copies of the model for symbolic cases: one copy serves for many calls, as long as they leave it unchanged."""

from typing import Any

import torch

from tracehouse.check.target import Target
from tracehouse.eager import state_snapshot


class ModelCopies:
    """The copies of a target's model, one at a time."""

    def __init__(self, target: Target) -> None:
        self._model = target.model
        self._last: tuple[torch.nn.Module, Any] | None = None
        self._is_unchanged: bool | None = None  # None where the last copy was not compared since it was taken

    def take(self) -> torch.nn.Module:
        """Return a copy whose state is that of the model: the last one again, if no call has changed it."""
        if self._last is None or not self.is_unchanged():
            module = self._model.copy_module()
            self._last = module, self._marks(module)
        self._is_unchanged = None
        return self._last[0]

    def last(self) -> torch.nn.Module:
        """Return the copy that was taken last, as the calls since then have left it."""
        assert self._last is not None
        return self._last[0]

    def is_unchanged(self) -> bool:
        """Whether the last copy's state is what it was when it was taken."""
        assert self._last is not None
        if self._is_unchanged is None:
            module, marks = self._last
            self._is_unchanged = bool(self._marks(module) == marks)
        return self._is_unchanged

    def _marks(self, module: torch.nn.Module) -> Any:
        return state_snapshot.mark(module), self._model.shared.marks()
