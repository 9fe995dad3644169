"""A form that answers where it is known to be right and quick. All else is answered as saved, by the same process."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from tracehouse.forms.agreed_form import AgreedForm
from tracehouse.forms.usual_values import are_usual

_Shapes = tuple[tuple[torch.Size, torch.dtype], ...]


class SelectiveForm:
    """A module whose `forward` computes in the form, or as saved where an input is empty: see `tracehouse.forms.sizes`.

    With `float_max`, the form is for usual values: finite numbers, and floats up to this one. With `shapes_max`, it is
    for the first so many shapes and datatypes that come.
    """

    def __init__(
        self,
        saved: torch.jit.ScriptModule,
        form: torch.jit.ScriptModule | AgreedForm,
        *,
        float_max: float | None = None,
        shapes_max: int | None = None,
    ) -> None:
        self.forward = _Forward(saved.forward, form.forward, float_max, shapes_max)


class _Forward:
    def __init__(self, saved: Any, form: Any, float_max: float | None, shapes_max: int | None) -> None:
        self.schema = saved.schema
        self._saved = saved
        self._form = form
        self._float_max = float_max
        self._shapes_max = shapes_max
        self._shapes: set[_Shapes] = set()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._takes([*_tensors([*args, *kwargs.values()])]):
            return self._form(*args, **kwargs)
        # Else what this process fuses would be fused here, too.
        with torch.jit.optimized_execution(False):  # type: ignore[attr-defined]
            return self._saved(*args, **kwargs)

    def _takes(self, tensors: Sequence[torch.Tensor]) -> bool:
        if any(one.numel() == 0 for one in tensors):
            return False
        if self._float_max is not None and not are_usual(tensors, self._float_max):
            return False
        return self._shapes_max is None or self._takes_shapes(self._shapes_max, tensors)

    def _takes_shapes(self, shapes_max: int, tensors: Sequence[torch.Tensor]) -> bool:
        shapes = tuple((one.shape, one.dtype) for one in tensors)
        if shapes not in self._shapes and len(self._shapes) < shapes_max:
            self._shapes.add(shapes)
        return shapes in self._shapes


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors that nest in the value."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _tensors(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _tensors(one)
