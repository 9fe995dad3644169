"""Check progress: which layers of the check are done, and what is left of its budget, from the events of a trace."""

from collections.abc import Mapping
from typing import Any, get_args

from tracehouse.findings.layer_questions import question_of
from tracehouse.findings.trace_check import Layer

_LAYERS = len(get_args(Layer.model_fields["name"].annotation))


class CheckProgress:
    """Describes the layers of the check as they are done.

    The layers have at most what is left of the check's budget, and mostly end earlier. When the trace ends is not
    foretold: what comes after the layers has limits of its own.
    """

    def __init__(self) -> None:
        self._done: set[tuple[str, str]] = set()  # methods and layers; a layer may run again

    def begin(self) -> None:
        """Forget the layers: another device or another conversion has a check, and a budget, of its own."""
        self._done.clear()

    def describe(self, layer: Mapping[str, Any]) -> str:
        """Return how far the check is after this layer, and what is left of its budget if the service says that."""
        name, method = str(layer.get("name")), str(layer.get("method"))
        self._done.add((method, name))
        done = sum(one == method for one, _ in self._done)
        return f"checked {method}, {done} of {_LAYERS}{_describe_left(layer.get('budget_left_s'))}: {question_of(name)}"


def _describe_left(left_s: float | None) -> str:
    return "" if left_s is None else f", at most {left_s:.0f} s of the budget left"
