"""State between cases: whether what calls of some sizes leave in the model changes what it answers at other sizes."""

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

from tracehouse.check.calls import CallResult, call_model
from tracehouse.check.target import Target
from tracehouse.eager.call import Call
from tracehouse.errors import ModelRaised

# So many pairs of calls are made in one proof: a model that changes with each call is called often enough. A choice.
_PAIRS_MAX = 24


class StateHistory:
    """The calls with which the cases of a proof began, and those of them that left something else in the model."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._calls: list[Call] = []
        self._changing: list[Call] = []
        self._pairs_left = _PAIRS_MAX

    def shows_effect(self, call: Call, beside: Call | None, *, changes_state: bool) -> bool:
        """Whether a call changes what the model answers to another one, as far as calls up to this one show it.

        `beside` is a call of other sizes of the same case. `changes_state` says whether the call leaves something else
        in the model. Raises LimitExceeded and TooSlow.
        """
        pairs = [*islice(self._pairs(call, beside, changes_state), self._pairs_left)]
        self._pairs_left -= len(pairs)
        self._calls.append(call)
        if changes_state:
            self._changing.append(call)
        return any(self._changes(before, after) for before, after in pairs)

    def _pairs(self, call: Call, beside: Call | None, changes_state: bool) -> Iterator[tuple[Call, Call]]:
        if changes_state:
            yield from ((call, other) for other in (self._target.call, beside, *self._calls) if other is not None)
        yield from ((other, call) for other in self._changing)

    def _changes(self, before: Call, after: Call) -> bool:
        """Whether the model answers the second call otherwise after the first one, made once or several times."""
        eager = self._target.eager
        try:
            fresh = eager.answer(after)
        except ModelRaised:
            return False
        model = self._target.model
        module = model.copy_module()
        try:
            with suppress(ModelRaised):
                call_model(module, before, eager.seed, within_s=None)
            answer = call_model(module, after, eager.seed, within_s=None)
            if not self._differs(after, fresh, answer) and eager.call_on(module, before):
                answer = call_model(module, after, eager.seed, within_s=None)
        except ModelRaised:
            return True
        finally:
            model.shared.restore()
        return self._differs(after, fresh, answer)

    def _differs(self, call: Call, fresh: CallResult, answer: CallResult) -> bool:
        return self._target.eager.find_effect(call, fresh, answer, self._target.tolerance) is not None
