"""Refusals: what a call leaves that the eager model refuses, and whether its example is answered otherwise then."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from tracehouse.check.calls import CallResult
from tracehouse.check.time_limit import TooSlow
from tracehouse.differential.comparison import Difference
from tracehouse.eager.call import Call
from tracehouse.errors import ModelRaised
from tracehouse.introspection import user_lines

_LINES_MAX = 4  # so many lines that refuse a call are looked at; chosen
_TIMES = 12  # so many times more is a call refused that leaves something; chosen
_SAME = 1e-4  # relative: answers of one copy to the same inputs are as close; chosen

_AskAgain = Callable[[Call], CallResult]
_FindChange = Callable[[Call, CallResult, Callable[[], CallResult], str, float], Difference | None]


@dataclass(frozen=True)
class AfterRefusal:
    """How the model answers its example after a call that it refused, and the line that refused that."""

    difference: Difference
    line: user_lines.Line | None


class Refusals:
    """What the oracle knows of the calls that its model refused. `changed` has the methods whose answer changed."""

    def __init__(self) -> None:
        self.changed: dict[str, AfterRefusal] = {}
        self._examples: dict[str, tuple[Call, CallResult]] = {}  # by method, with the answers
        self._looked_at: set[tuple[user_lines.Line | None, bool]] = set()  # lines that refused, and whether again

    @property
    def are_looked_at(self) -> bool:
        """Whether it is still asked what a call leaves that is refused at a further line."""
        return len(self._looked_at) < _LINES_MAX

    def keep_example(self, call: Call, answer: CallResult) -> None:
        """Keep the example of a method, and the answer of a copy that refused nothing."""
        self._examples[call.method] = call, answer

    def look(
        self,
        call: Call,
        refusal: ModelRaised,
        ask_again: _AskAgain,
        find_change: _FindChange,
        *,
        is_unchanged: bool,
        again: bool,
    ) -> None:
        """Look whether a copy that refused the call gives its example another answer now.

        It is asked if the call was seen to leave something, or if a line of the source itself raises: that may note
        something where no copy has its own. With `again`, it first refuses what changed it a few times more, because a
        model may count to some number of refusals. `ask_again` asks this copy, and `find_change` is the oracle's.
        """
        error = refusal.__cause__ or refusal
        line = user_lines.line_of_error(error)
        may_note = not is_unchanged or user_lines.raises_itself(error)
        if not may_note or (line, again) in self._looked_at or not self.are_looked_at:
            return
        self._looked_at.add((line, again))
        for _ in range(_TIMES if again and not is_unchanged else 0):
            with suppress(ModelRaised, TooSlow):
                ask_again(call)
        if (found := self._find_change(call.method, ask_again, find_change)) is not None:
            self.changed.setdefault(call.method, AfterRefusal(found, line))

    def _find_change(self, method: str, ask_again: _AskAgain, find_change: _FindChange) -> Difference | None:
        if method not in self._examples:
            return None
        example, first = self._examples[method]
        if first.drew:
            return None
        with suppress(TooSlow):
            return find_change(example, first, lambda: ask_again(example), "a call that the model refused", _SAME)
        return None
