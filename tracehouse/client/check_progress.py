"""Check progress: which layers of the check are done, and what is left of its budget, from the events of a trace."""

from collections.abc import Mapping
from typing import Any, get_args

from tracehouse.findings.layer_questions import question_of
from tracehouse.findings.trace_check import Layer

_LAYERS = len(get_args(Layer.model_fields["name"].annotation))


class CheckProgress:
    """Describes the layers of the check as they are done.

    `budget_s` is the budget that the request gave the check in seconds, which its methods share. When the trace ends is
    not foretold: what comes after the check has no budget, and a budget with a name has no seconds that are known here.
    """

    def __init__(self, budget_s: float | None = None) -> None:
        self._budget_s = budget_s
        # Of each method and layer, what it took. A layer that runs again tells what it took in all.
        self._spent: dict[tuple[str, str], float | None] = {}

    def begin(self) -> None:
        """Forget the layers: another device or another conversion has a check, and a budget, of its own."""
        self._spent.clear()

    def describe(self, layer: Mapping[str, Any]) -> str:
        """Return how far the check is after this layer, and what is left of its budget if that is known."""
        name, method = str(layer.get("name")), str(layer.get("method"))
        self._spent[method, name] = layer.get("budget_s")
        done = sum(one == method for one, _ in self._spent)
        return f"checked {method}, {done} of {_LAYERS}{self._describe_left()}: {question_of(name)}"

    def _describe_left(self) -> str:
        spent = [one for one in self._spent.values() if one is not None]
        if self._budget_s is None or len(spent) < len(self._spent):
            return ""
        left_s = max(0.0, self._budget_s - sum(spent))
        return f", {left_s:.0f} s of {self._budget_s:g} s left"
