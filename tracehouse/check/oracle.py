"""The eager model as the reference: asked on copies that nothing has touched, and watched for what it does besides."""

import copy
import random
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tracehouse.check.inputs.probes import probes
from tracehouse.check.instrumentation import attribute_reads, hidden_state
from tracehouse.check.instrumentation.value_reads import Reading
from tracehouse.differential.comparison import Difference
from tracehouse.eager import state_snapshot
from tracehouse.eager.call import Call
from tracehouse.eager.error_translation import blamed
from tracehouse.eager.model import Model
from tracehouse.eager.source import seed_all
from tracehouse.errors import AnswerTooLarge, ModelRaised
from tracehouse.findings.trace_check import Effect
from tracehouse.introspection import script_graphs, user_lines
from tracehouse.torch_values.compare import compare, copied
from tracehouse.torch_values.gradients import Gradients, differentiate

# What gives a tensor's values, or what follows from them, to Python; tolist and numpy show in the tracer's warnings.
_VALUE_READS = {
    torch.ops.aten._local_scalar_dense,
    torch.ops.aten.equal,
    torch.ops.aten.is_nonzero,
    torch.ops.aten.allclose,
}
# Other states are tried for so long, or so many times the call's own time.
_STATES_S = 2.0
_STATES_TIMES_CALL = 30
_SHORT_S = 1.0  # a call that takes no longer is short

_Marks = tuple[state_snapshot.Marks, state_snapshot.Marks]  # of the copy, and of what all copies share
_Key = tuple[str, str]  # a submodule's path, or what copies share, and an attribute's name


class TooSlow(BaseException):
    """Eager was stopped. Not an Exception, so that no model takes it for its own."""


@dataclass(frozen=True)
class Answer:
    """What a call gave; `inputs` are as the call left them."""

    outputs: Any
    inputs: dict[str, torch.Tensor]
    drew: bool = False  # a random number
    left_state: bool = False  # the call changed the model, or what it shares with its copies


@dataclass(frozen=True)
class Carried:
    """What each call changes, having read what the call before left; and the line of the first such read.

    Whether an answer can show it was found by leaving something else.
    """

    name: str
    line: user_lines.Line | None
    effect: Effect = "unknown"
    reason: str = "it was not tried"


@dataclass(frozen=True)
class Observed:
    """What two consecutive calls on the same inputs gave and did."""

    answers: tuple[Answer, Answer]
    carried: list[Carried]  # what was seen to show in an answer, or may
    without_effect: list[Carried]
    reads_values: bool  # of tensors, in Python: it may branch on them


class EagerOracle:
    """Calls on the untouched model: where a call changes it, the next call gets another copy."""

    def __init__(self, model: Model, seed: int) -> None:
        self._model = model
        self._seed = seed
        self._unchanged: tuple[torch.nn.Module, _Marks] | None = None  # a copy, and its marks
        self._last: torch.nn.Module | None = None

    @property
    def module(self) -> torch.nn.Module:
        """To be looked at, and not to be called."""
        return self._model.module

    def answer(
        self,
        call: Call,
        *,
        within_s: float | None = None,
        draw: int = 0,
        world: AbstractContextManager[Any] | None = None,
    ) -> Answer:
        """Another `draw` draws other random numbers; a `world` is entered for the call alone, for to make a copy puts
        the source's globals back. Raises ModelRaised with the user's line, and TooSlow."""
        module, before = self._unchanged or self._copy()
        self._unchanged = None
        self._last = module
        try:
            with world or nullcontext(), stopped_after(within_s):
                answer = _answer(module, call, self._seed + draw)
        except ModelRaised:
            self._keep(module, before)
            raise
        return answer if self._keep(module, before) else replace(answer, left_state=True)

    def next_answer(self, call: Call, *, within_s: float) -> Answer:
        """Of the copy that answered last, with what that call left behind."""
        assert self._last is not None
        with stopped_after(within_s):
            return _answer(self._last, call, self._seed)

    def observed(self, call: Call) -> Observed:
        """Raises ModelRaised."""
        try:
            return self._observed(call, _ValueReads())
        except ModelRaised:
            # A model that traces functions itself does not get through a mode of torch's.
            return self._observed(call, nullcontext())

    def _observed(self, call: Call, mode: AbstractContextManager[Any]) -> Observed:
        module = self._model.fresh()
        first = _answer(module, call, self._seed)
        before = self._marks(module)
        with mode as reads:
            second = _answer(module, call, self._seed + 1)
        after = self._marks(module)
        own, shared = _changed(before, after)
        # The source's globals cannot be watched, so what each call changes there is taken to be read.
        found = {key: attribute_reads.line_that_names(key[1]) for key in sorted(shared)}
        if own:
            found |= self._read_before_written(module, call, attribute_reads.with_statistics(own))
        all_carried = _States(self._model, self._seed, call).judged(module, found, shared) if found else []
        # What was not watched may have happened.
        return Observed(
            (first, second),
            [one for one in all_carried if one.effect != "harmless"],
            [one for one in all_carried if one.effect == "harmless"],
            reads_values=reads is None or reads.seen,
        )

    def line_of_state(self, call: Call) -> user_lines.Line | None:
        """The line that reads first what a call has left behind."""
        module, before = self._copy()
        with suppress(ModelRaised):
            _answer(module, call, self._seed)
        own, shared = _changed(before, self._marks(module))
        read = self._read_before_written(module, call, own) if own else {}
        found = [*read.values(), *(attribute_reads.line_that_names(name) for _, name in sorted(shared))]
        return next((line for line in found if line is not None), None)

    def line_of_draw(self, call: Call) -> user_lines.Line | None:
        """The line that has Python or NumPy draw a random number."""
        module = self._model.fresh()
        with suppress(ModelRaised):
            return attribute_reads.line_that_draws(lambda: _answer(module, call, self._seed, seeded=False))
        return None

    def changed_by(self, other: Call, call: Call, *, tolerance: float, within_s: float) -> Difference | None:
        """How a copy that was asked the call before answers it otherwise after that other one. Raises TooSlow, and
        ModelRaised where it is refused at first."""
        module = self._model.fresh()
        with stopped_after(within_s):
            first = _answer(module, call, self._seed)
            with suppress(ModelRaised):
                _answer(module, other, self._seed)
            try:
                again = _answer(module, call, self._seed)
            except ModelRaised as error:
                return Difference("output", f"it raises: {error.detail}")
        return compare(first.outputs, again.outputs, tolerance, sides=("the first call", "a later one")).difference

    def is_sure(self, call: Call, answer: Answer, *, tolerance: float, within_s: float) -> bool:
        """Whether it answers the same again: not where an operator reads memory that is not its own, as for offsets
        past the end. What drew or left state is judged elsewhere."""
        if answer.drew or answer.left_state:
            return True
        try:
            again = self.answer(call, within_s=within_s)
        except (ModelRaised, TooSlow):
            return False
        return compare(answer.outputs, again.outputs, tolerance).agrees

    def repeated(self, call: Call, times: int) -> list[Answer]:
        """Consecutive calls of one copy, each with other random numbers."""
        module = self._model.fresh()
        return [_answer(module, call, self._seed + time) for time in range(times)]

    def _read_before_written(
        self, module: torch.nn.Module, call: Call, changing: set[_Key]
    ) -> dict[_Key, user_lines.Line | None]:
        """What is only written, such as the attention weights kept for a person to look at, carries nothing on."""
        with attribute_reads.reads(module, changing) as seen, suppress(ModelRaised):
            _answer(module, call, self._seed)
        return {key: seen[key] for key in sorted(changing) if key in seen}

    def _keep(self, module: torch.nn.Module, before: _Marks) -> bool:
        """Whether the call left the copy as it was, which serves again then."""
        if self._marks(module) != before:
            return False
        self._unchanged = module, before
        return True

    def _copy(self) -> tuple[torch.nn.Module, _Marks]:
        module = self._model.fresh()
        return module, self._marks(module)

    def _marks(self, module: torch.nn.Module) -> _Marks:
        return state_snapshot.of_module(module), self._model.shared.marks()


class _States:
    """Tries other states in the place of those that calls carry on, each in a new copy of the model."""

    def __init__(self, model: Model, seed: int, call: Call) -> None:
        self._model = model
        self._seed = seed
        self._calls = [call, *(varied for _, varied in list(probes(call, searching=False))[:1])]
        self._numbers: set[float] = set()

    def judged(
        self, module: torch.nn.Module, found: Mapping[_Key, user_lines.Line | None], shared: set[_Key]
    ) -> list[Carried]:
        """`module` is the copy that has answered already."""
        started = time.monotonic()
        settled = self._settled(module, set(found), shared)
        call_s = (time.monotonic() - started) / len(self._calls)
        until = time.monotonic() + max(_STATES_S, _STATES_TIMES_CALL * call_s)
        within_s = max(_SHORT_S, _STATES_TIMES_CALL * call_s)
        values = {key: hidden_state.content(self._held(module, key, shared)) for key in found}
        judged = []
        for key, line in found.items():
            name = ".".join(key) if key in shared else script_graphs.dotted(*key)
            if key in settled:
                judged.append(Carried(name, line, "harmless", "every call leaves the same in it"))
                continue
            run = partial(self._answers, key, key in shared, within_s)
            said = hidden_state.shown(values[key], run, lambda: self._numbers, lambda: time.monotonic() > until)
            judged.append(Carried(name, line, said.effect, said.reason))
        return judged

    def _settled(self, module: torch.nn.Module, keys: set[_Key], shared: set[_Key]) -> set[_Key]:
        """Those that calls on other inputs leave as they were, whatever is written: weights that are kept to a norm."""
        before = {key: hidden_state.content(self._held(module, key, shared)) for key in keys}
        settled = keys if len(self._calls) > 1 else set()
        for call in self._calls[::-1]:
            try:
                _answer(module, call, self._seed)
            except ModelRaised:
                self._calls.remove(call)  # the model takes no such values
                return set()
            settled = {
                key for key in settled if hidden_state.is_same_content(before[key], self._held(module, key, shared))
            }
        return settled

    def _answers(self, key: _Key, is_shared: bool, within_s: float, value: Any) -> Sequence[Any]:
        outputs = []
        for call in self._calls:
            module = self._model.fresh()
            self._put(module, key, copy.deepcopy(value), is_shared)
            outputs.append(self._answer(module, call, within_s).outputs)
        self._model.shared.restore()
        return outputs

    def _answer(self, module: torch.nn.Module, call: Call, within_s: float) -> Answer:
        try:
            with stopped_after(within_s), Reading(call) as reading:
                return _answer(module, call, self._seed)
        except TooSlow as slow:
            raise TimeoutError from slow
        finally:
            self._numbers |= reading.taint.numbers

    def _held(self, module: torch.nn.Module, key: _Key, shared: set[_Key]) -> Any:
        return self._model.shared.held(key) if key in shared else state_snapshot.held(module, key)

    def _put(self, module: torch.nn.Module, key: _Key, value: Any, is_shared: bool) -> None:
        if is_shared:
            self._model.shared.put(key, value)
        else:
            state_snapshot.put(module, key, value)


def live_answer(module: torch.nn.Module, call: Call, seed: int, *, within_s: float | None) -> Answer:
    """Of this very module, with whatever earlier calls left behind. Raises ModelRaised and TooSlow."""
    with stopped_after(within_s):
        return _answer(module, call, seed)


def live_gradients(
    module: torch.nn.Module, call: Call, seed: int, *, within_s: float | None, most_bytes: int
) -> Gradients:
    """The same of it and of the way back. Raises AnswerTooLarge besides."""

    def run(given: Mapping[str, torch.Tensor]) -> Any:
        return call.with_tensors(given).run(module)

    seed_all(seed)
    doing = f"{call.method}, or the way back through it, raised"
    with stopped_after(within_s), blamed(ModelRaised, doing, method=call.method):
        try:
            return differentiate(run, call.tensors, module, seed, most=most_bytes)
        except AnswerTooLarge as error:
            too_large = error
    raise too_large


def artifact_answer(module: torch.jit.ScriptModule, call: Call, seed: int) -> Answer:
    """The same of the artifact. Raises whatever it raises."""
    cloned = call.cloned()
    seed_all(seed)
    before = _generators()
    with torch.no_grad():
        outputs = copied(cloned.run_traced(module))
    return Answer(outputs, cloned.tensors, drew=_generators() != before)


def _changed(before: _Marks, after: _Marks) -> tuple[set[_Key], set[_Key]]:
    own, shared = ({key for key in old.keys() | new if old.get(key) != new.get(key)}
                   for old, new in zip(before, after, strict=True))  # fmt: skip
    return own, shared


def _answer(module: torch.nn.Module, call: Call, seed: int, *, seeded: bool = True) -> Answer:
    cloned = call.cloned()
    if seeded:
        seed_all(seed)
    before = _generators()
    with torch.no_grad(), blamed(ModelRaised, f"{call.method} raised", method=call.method):
        outputs = copied(cloned.run(module))
    return Answer(outputs, cloned.tensors, drew=_generators() != before)


def _generators() -> tuple[Any, ...]:
    """The state of everything that random numbers are drawn from."""
    _, keys, position, *_ = np.random.get_state(legacy=True)
    # To ask CUDA would begin it, where nothing has yet.
    states = [torch.get_rng_state(), *(torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else [])]
    drawn = [state.numpy().tobytes() for state in states]
    return drawn, random.getstate(), np.asarray(keys).tobytes(), position


class _ValueReads(TorchDispatchMode):
    """Sees a tensor's value go to Python. A mode of functions would see more, and turn nn.MultiheadAttention's fast
    path off."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen |= func.overloadpacket in _VALUE_READS
        return func(*args, **(kwargs or {}))


@contextmanager
def stopped_after(seconds: float | None) -> Iterator[None]:
    """Raises TooSlow into Python code that takes longer; a call of torch's is let to end."""
    if seconds is None:
        yield
        return

    def stop(_: int, frame: FrameType | None) -> None:  # noqa: ARG001
        raise TooSlow

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
