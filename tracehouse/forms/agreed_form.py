"""An agreed form: one that answers calls of shapes at which it has given the same answer as the archive as saved.

The first call of each shape is answered by both, and so are numbers that are drawn: of a call of zeros, such as to warm
a model up, each form makes the same. Once they have differed, the form answers nothing any more.
"""

from collections.abc import Callable
from typing import Any

import torch

from tracehouse.differential.comparison import AnswerNames
from tracehouse.torch_values import returned
from tracehouse.torch_values.compare import compare

_SEED = 0
_NAMES: AnswerNames = ("the form as saved", "this form")

Forward = Callable[..., Any]


class FormDiffers(Exception):
    """The form has answered otherwise than the archive as saved."""


class AgreedForm:
    """A form with a `forward` of its own, which is asked beside that of the archive as saved where that is due.

    It has tensors of floats as arguments. `tolerance` is relative, as in a check.
    """

    def __init__(self, saved: Forward, form: Forward, tolerance: float) -> None:
        self._saved = saved
        self._form = form
        self._tolerance = tolerance
        self._agreed: set[tuple[torch.Size, ...]] = set()
        self._difference: str | None = None

    def forward(self, *args: torch.Tensor, **kwargs: torch.Tensor) -> Any:
        """Return the answer. Raises FormDiffers."""
        if self._difference is not None:
            raise FormDiffers(self._difference)
        shapes = tuple(one.shape for one in (*args, *kwargs.values()))
        if shapes in self._agreed:
            return self._form(*args, **kwargs)
        answer = self._saved(*args, **kwargs)
        self._require_same(answer, self._form(*args, **kwargs), shapes)
        generator = torch.Generator().manual_seed(_SEED)
        drawn = [torch.randn(one.shape, generator=generator, dtype=one.dtype) for one in (*args, *kwargs.values())]
        named = dict(zip(kwargs, drawn[len(args) :], strict=True))
        alone = drawn[: len(args)]
        self._require_same(self._saved(*alone, **named), self._form(*alone, **named), shapes)
        self._agreed.add(shapes)
        return answer

    def _require_same(self, saved: Any, form: Any, shapes: tuple[torch.Size, ...]) -> None:
        first, second = (returned.open_containers(one) for one in (saved, form))
        found = compare(first, second, self._tolerance, sides=_NAMES).difference
        if found is not None:
            sizes = ", ".join(str([*one]) for one in shapes)
            self._difference = f"it differs for inputs of the shapes {sizes} in {found.leaf!r}: {found.what}"
            raise FormDiffers(self._difference)
