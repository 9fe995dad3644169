"""The oracle: unchanged copies of the eager model, which are called and observed.

In testing, an oracle is what says which answer is right (Howden, 1978).
"""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tracehouse.check.calls import CallEnded, CallResult, call_model
from tracehouse.check.float64_model import Float64Model, to_double
from tracehouse.check.instrumentation import attribute_reads
from tracehouse.check.memory_plan import MemoryPlan
from tracehouse.check.refusals import Refusals
from tracehouse.check.state_trials import HiddenState, StateKey, StateTrials
from tracehouse.check.time_limit import TooSlow, time_limit
from tracehouse.differential.call_limits import CALL_LIMITS, CallLimit
from tracehouse.differential.comparison import ANSWER_NAMES, AnswerNames, ComparisonResult, Difference
from tracehouse.eager import state_snapshot
from tracehouse.eager.call import Call
from tracehouse.eager.model import LoadedModel
from tracehouse.eager.state_marks import Marks
from tracehouse.errors import ModelRaised
from tracehouse.introspection import user_lines
from tracehouse.torch_values import structure
from tracehouse.torch_values.compare import compare, compare_three_runs

# The operators through which a tensor's value reaches Python. `tolist` and `numpy` need none, because the tracer warns
# of them.
_VALUE_READS = {
    torch.ops.aten._local_scalar_dense,
    torch.ops.aten.equal,
    torch.ops.aten.is_nonzero,
    torch.ops.aten.allclose,
}

# So often is a call repeated that leaves something, because a model may count such calls. A choice.
TIMES_MORE = 12
_SETTLED_MIN = 4  # a copy that so many calls in a row leave as it is gets no more of them; a choice
_CALLED_ON_MAX = 16  # so many calls are repeated; a choice

_Marks = tuple[Marks, Marks]  # of a copy, and of what all copies share


@dataclass(frozen=True)
class CallObservation:
    """Two consecutive calls of one copy on the same inputs: their answers, and what was seen of state and reads.

    If the second one was stopped, there is one answer, and `stopped` says after how long.
    """

    answers: tuple[CallResult, ...]
    hidden_states: list[HiddenState]  # state on which an answer depends, or may depend
    harmless_states: list[HiddenState]  # state on which no answer depends
    reads_values: bool  # whether Python reads a tensor's value, and so may branch on it
    call_s: float  # how many seconds the first call took
    stopped: str | None = None


class EagerOracle:
    """The eager model as the reference.

    A copy answers call after call for as long as no call changes it; after that a new copy takes its place. `seed`
    seeds each call. `limit` is that of a call that names no limit of its own, once `observe` has timed one. Without it,
    such calls have none. With `measures_rounding`, the model's answer in float64 says how far apart rounding makes two
    answers. `memory` says for which calls that fits.
    """

    def __init__(
        self, model: LoadedModel, seed: int, limit: CallLimit | None = None, *, measures_rounding: bool = True
    ) -> None:
        self._model = model
        self._seed = seed
        self._limit = limit
        self._limit_s: float | None = None
        self._float64 = Float64Model(model.module) if measures_rounding else None
        self._answer_s = 0.0  # how long the last answer took
        self._unchanged: tuple[torch.nn.Module, _Marks] | None = None  # a copy that no call has changed, and its marks
        self._last: torch.nn.Module | None = None  # the copy that answered last
        self.has_left_state = False  # whether a call left something in a copy, or in what all copies share
        self._called_on = 0  # how many calls were repeated that leave something
        self.has_stopped = False  # whether a call was stopped at its limit
        self.refusals = Refusals()
        self.memory = MemoryPlan()  # what calls may take
        self._lack_of_memory: str | None = None  # why an answer in float64 was left out

    @property
    def seed(self) -> int:
        """The seed of each call. The artifact's calls have the same one."""
        return self._seed

    @property
    def module(self) -> torch.nn.Module:
        """The module to look at. Never call it: a call may change it."""
        return self._model.module

    def answer(
        self,
        call: Call,
        *,
        within_s: float | None = None,
        draw: int = 0,
        world: AbstractContextManager[Any] | None = None,
        gradients: bool = False,
    ) -> CallResult:
        """Return an unchanged copy's answer.

        Another `draw` draws other random numbers. `world` surrounds the call alone and not the making of a copy, which
        puts the source's globals back. `gradients` enables them. Raises ModelRaised with the user's line if the model
        raises, LimitExceeded if memory runs out, and TooSlow after `within_s` seconds or the oracle's own limit.
        """
        module, before = self._unchanged or self._copy()
        self._unchanged = None
        self._last = module
        began = time.monotonic()
        try:
            with world or nullcontext():
                answer = call_model(
                    module, call, self._seed + draw, within_s=within_s or self._limit_s, gradients=gradients
                )
        except (ModelRaised, CallEnded) as ended:
            is_unchanged = self._keep_if_unchanged(module, before)
            if isinstance(ended, ModelRaised):
                self.refusals.look(
                    call, ended, self.answer_again, self.find_change, is_unchanged=is_unchanged, again=world is None
                )
            raise
        except TooSlow:
            self.has_stopped = True
            raise
        self._answer_s = time.monotonic() - began
        if self._keep_if_unchanged(module, before):
            return answer
        self.has_left_state = True
        return replace(answer, left_state=True)

    def compare(
        self,
        call: Call,
        eager: CallResult,
        artifact: CallResult,
        tolerance: float,
        sides: AnswerNames = ANSWER_NAMES,
    ) -> ComparisonResult:
        """Return how the artifact's outputs compare with those that eager gave to the call.

        The relative `tolerance` decides where rounding is not measured, or random numbers were drawn, which float64
        would draw otherwise.
        """
        if self._float64 is None or eager.drew or artifact.drew:
            return compare(eager.outputs, artifact.outputs, tolerance, sides=sides)
        return compare_three_runs(eager.outputs, artifact.outputs, lambda: self._ask_float64(call), tolerance, sides)

    def find_change(
        self, call: Call, first: CallResult, ask: Callable[[], CallResult], after: str, tolerance: float
    ) -> Difference | None:
        """Return how the answer to the call that `ask` gets differs from the first one; None if it is the same.

        `after` says what came in between. Raises TooSlow if `ask` does.
        """
        try:
            later = ask()
        except ModelRaised as error:
            return Difference("output", f"after {after} it raises: {error.detail}")
        return self.compare(call, first, later, tolerance, ("the first call", f"one after {after}")).difference

    def find_effect(self, call: Call, answer: CallResult, changed: CallResult, tolerance: float) -> str | None:
        """Return how something that was changed changes the model's answer to the call; None if it does not."""
        return describe_effect(self.compare_changed(call, answer, changed, tolerance))

    def compare_changed(
        self, call: Call, answer: CallResult, changed: CallResult, tolerance: float
    ) -> ComparisonResult:
        """Return how the model's answer to the call compares with its answer where something was changed.

        Both are under the same seed, so if one drew random numbers, they must be equal.
        """
        return self.compare(call, answer, changed, 0.0 if answer.drew else tolerance, ("eager", "that call"))

    def rounding_of(self, call: Call, answer: CallResult) -> float | None:
        """Return the largest error of eager's answer to the call, against float64; None if it cannot be told.

        It counts as one rounding of the largest value at least: an answer may be exact by luck.
        """
        precise = self._ask_float64(call)
        if isinstance(precise, str) or answer.drew:
            return None
        widened = structure.map_tensors(answer.outputs, "", lambda _, tensor: to_double(tensor))
        error = compare(widened, precise, 0.0).largest
        return (
            None if error is None else max([error, *map(_rounding_of, structure.tensors(answer.outputs, "").values())])
        )

    def take_lack_of_memory(self) -> str | None:
        """Return why an answer in float64 was left out since this was last asked; None if none was."""
        why, self._lack_of_memory = self._lack_of_memory, None
        return why

    def _ask_float64(self, call: Call) -> Any | str:
        """Return the outputs in float64, or a text that says why there are none."""
        if (why := self.memory.why_no_float64(call)) is not None:
            self._lack_of_memory = why
            return why
        model = self._float64 or Float64Model(self._model.module)
        self._unchanged = None  # what it shares with the source is put back after the call
        return model.outputs(call, self._seed, within_s=CALL_LIMITS.float64.after(self._answer_s))

    def answer_again(
        self, call: Call, *, within_s: float | None = None, world: AbstractContextManager[Any] | None = None
    ) -> CallResult:
        """Return the answer of the copy that answered last, with the state that its last call left, in `world`.

        Call `answer` or `repeat` first. Raises ModelRaised if the model raises, and TooSlow after `within_s` seconds or
        the oracle's own limit.
        """
        assert self._last is not None
        self._unchanged = None  # it may be this copy
        with world or nullcontext():
            return call_model(self._last, call, self._seed, within_s=within_s or self._limit_s)

    def observe(self, call: Call, *, first_s: float | None = None) -> CallObservation:
        """Call a copy twice, and return both answers and the state that passes from call to call.

        Raises ModelRaised if the model refuses the call, and TooSlow after `first_s` seconds of the first one.
        """
        try:
            return self._observe(call, _ValueReadDetector(), first_s)
        except ModelRaised:
            # A model that itself calls torch.jit.trace fails under a dispatch mode.
            return self._observe(call, nullcontext(), first_s)

    def _observe(self, call: Call, mode: AbstractContextManager[Any], first_s: float | None) -> CallObservation:
        module = self._model.copy_module()
        started = time.monotonic()
        first = call_model(module, call, self._seed, within_s=first_s)
        self.refusals.keep_example(call, first)
        call_s = time.monotonic() - started
        if self._limit is not None:
            self._limit_s = max(self._limit_s or 0.0, self._limit.after(call_s))
        before = self._mark(module)
        try:
            with mode as detector:
                second = call_model(module, call, self._seed + 1, within_s=self._limit_s)
        except TooSlow as slow:
            return CallObservation((first,), [], [], reads_values=True, call_s=call_s, stopped=str(slow))
        after = self._mark(module)
        own, shared = _find_changes(before, after)
        # The source's globals cannot be watched, so one that each call changes is taken to be read.
        lines = {key: attribute_reads.find_line_that_names(key[1]) for key in sorted(shared)}
        if own:
            lines |= self._find_reads_before_writes(module, call, attribute_reads.add_running_statistics(own))
        states = StateTrials(self._model, self._seed, call, call_s).judge(module, lines, shared) if lines else []
        return CallObservation(
            (first, second),
            [state for state in states if state.effect != "harmless"],
            [state for state in states if state.effect == "harmless"],
            reads_values=detector is None or detector.has_read,  # without a detector, a read may have happened
            call_s=call_s,
        )

    def find_state_line(self, call: Call) -> user_lines.Line | None:
        """Return the first line that reads what an earlier call left; None if no line is known."""
        module, before = self._copy()
        with suppress(ModelRaised, TooSlow):
            call_model(module, call, self._seed, within_s=self._limit_s)
        own, shared = _find_changes(before, self._mark(module))
        reads = self._find_reads_before_writes(module, call, own) if own else {}
        lines = [*reads.values(), *(attribute_reads.find_line_that_names(name) for _, name in sorted(shared))]
        return next((line for line in lines if line is not None), None)

    def find_draw_line(self, call: Call) -> user_lines.Line | None:
        """Return the first line on which Python or NumPy draws a random number; None if there is none."""
        module = self._model.copy_module()
        with suppress(ModelRaised, TooSlow):
            return attribute_reads.find_line_that_draws(
                lambda: call_model(module, call, self._seed, within_s=self._limit_s, seeded=False)
            )
        return None

    def find_aftereffect(self, other: Call, call: Call, *, tolerance: float, within_s: float) -> Difference | None:
        """Return how a copy's answer to `call` changes after the copy was called on `other`; None if it stays the same.

        It is called on `other` once and, if that changes nothing, several times more. `tolerance` is relative. Raises
        TooSlow if the first three calls together take longer than `within_s` seconds, and ModelRaised if the model
        refuses `call` before it was called on `other`.
        """
        module = self._model.copy_module()

        def find_change() -> Difference | None:
            try:
                again = call_model(module, call, self._seed)
            except ModelRaised as error:
                return Difference("output", f"it raises: {error.detail}")
            return self.compare(call, first, again, tolerance, ("the first call", "a later one")).difference

        with time_limit(within_s):
            first = call_model(module, call, self._seed)
            with suppress(ModelRaised):
                call_model(module, other, self._seed)
            found = find_change()
        if found is None and self.call_on(module, other, within_s=within_s):
            with suppress(TooSlow), time_limit(within_s):
                found = find_change()
        return found

    def find_effect_of_many(self, calls: Sequence[Call], example: Call, *, tolerance: float) -> Difference | None:
        """Return how a copy that was called on all of these answers its example or the last of them otherwise.

        None if it does not. It is called on its example first, and on no more calls after a few that leave it as it is.
        Raises TooSlow at the oracle's own limit, and ModelRaised if the model refuses its example or, as a new copy,
        the last call.
        """
        module, marks = self._copy()
        first = call_model(module, example, self._seed, within_s=self._limit_s)
        last: tuple[Call, CallResult | ModelRaised] | None = None
        settled = 0  # so many calls in a row left the copy as it was
        for call in calls:
            try:
                last = call, call_model(module, call, self._seed, within_s=self._limit_s)
            except ModelRaised as error:
                last = call, error
            before, marks = marks, self._mark(module)
            settled = settled + 1 if marks == before else 0
            if settled == _SETTLED_MIN:
                break
        again = call_model(module, example, self._seed, within_s=self._limit_s)
        found = self.compare(example, first, again, tolerance, ("the first call", "a later one")).difference
        if found is not None or last is None:
            return found
        call, answer = last
        fresh = self.answer(call)
        if isinstance(answer, ModelRaised):
            return Difference("output", f"after calls of many sizes it raises: {answer.detail}")
        return self.compare(call, fresh, answer, tolerance, ("the first call", "one after many others")).difference

    def ask_on(self, call: Call, *, within_s: float | None = None) -> bool:
        """Ask the copy that answered last the same call several times more. Return False if it stays as it is."""
        assert self._last is not None
        self._unchanged = None  # it may be this copy
        return self.call_on(self._last, call, within_s=within_s)

    def call_on(self, module: torch.nn.Module, call: Call, *, within_s: float | None = None) -> bool:
        """Call a copy several times more on what it was called on. Return False if it stays as it is.

        A model may count calls of one kind, and answer otherwise from some number on. Few calls are repeated so.
        """
        if self._called_on >= _CALLED_ON_MAX:
            return False
        before = self._mark(module)
        for number in range(TIMES_MORE):
            with suppress(ModelRaised, TooSlow):
                call_model(module, call, self._seed, within_s=within_s)
            if number == 0 and self._mark(module) == before:
                return False
        self._called_on += 1
        return True

    def is_repeatable(self, call: Call, answer: CallResult, *, tolerance: float, within_s: float | None = None) -> bool:
        """Whether the same call gives the same answer again, within the relative `tolerance` and `within_s` seconds.

        It does not if an operator reads memory that is not its own, for instance by offsets past the end. An answer
        that drew random numbers or left state counts as repeatable, because other checks judge it.
        """
        if answer.drew or answer.left_state:
            return True
        try:
            again = self.answer(call, within_s=within_s)
        except (ModelRaised, TooSlow):
            return False
        return compare(answer.outputs, again.outputs, tolerance).agrees

    def repeat(self, call: Call, times: int) -> list[CallResult]:
        """Return the answers of one new copy to `times` consecutive calls with the draws 0, 1, 2 and so on.

        Raises ModelRaised if the model refuses one, and TooSlow if one is stopped.
        """
        module = self._model.copy_module()
        self._last = module
        return [call_model(module, call, self._seed + draw, within_s=self._limit_s) for draw in range(times)]

    def _find_reads_before_writes(
        self, module: torch.nn.Module, call: Call, changing: set[StateKey]
    ) -> dict[StateKey, user_lines.Line | None]:
        """Return the attributes that a call reads before it writes them, with the lines.

        State that is only written carries nothing on: attention weights, for instance, that are stored for a person to
        look at.
        """
        with attribute_reads.record_reads(module, changing) as lines, suppress(ModelRaised, TooSlow):
            call_model(module, call, self._seed, within_s=self._limit_s)
        return {key: lines[key] for key in sorted(changing) if key in lines}

    def _keep_if_unchanged(self, module: torch.nn.Module, before: _Marks) -> bool:
        """Whether the call left the copy as it was; if so, the copy answers the next call too."""
        if self._mark(module) != before:
            return False
        self._unchanged = module, before
        return True

    def _copy(self) -> tuple[torch.nn.Module, _Marks]:
        module = self._model.copy_module()
        return module, self._mark(module)

    def _mark(self, module: torch.nn.Module) -> _Marks:
        return state_snapshot.mark(module), self._model.shared.marks()


def describe_effect(compared: ComparisonResult) -> str | None:
    """Return how an answer differs from that where nothing was changed; None if it does not."""
    found = compared.difference
    return None if found is None else f"{found.leaf} differs: {found.what}"


def _find_changes(before: _Marks, after: _Marks) -> tuple[set[StateKey], set[StateKey]]:
    """Return the keys of what changed: first in the copy, then in what all copies share."""
    own, shared = ({key for key in old.keys() | new if old.get(key) != new.get(key)}
                   for old, new in zip(before, after, strict=True))  # fmt: skip
    return own, shared


class _ValueReadDetector(TorchDispatchMode):
    """Notices when a tensor's value reaches Python.

    A mode of functions (TorchFunctionMode) would notice more, but turns off the fast path of nn.MultiheadAttention.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.has_read = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.has_read |= func.overloadpacket in _VALUE_READS
        return func(*args, **(kwargs or {}))


def _rounding_of(tensor: torch.Tensor) -> float:
    """Return one rounding of the tensor's largest finite value; 0 if it has none."""
    if not tensor.is_floating_point():
        return 0.0
    finite = tensor.detach()[tensor.isfinite()].double().abs()
    return float(finite.max()) * torch.finfo(tensor.dtype).eps if finite.numel() else 0.0
