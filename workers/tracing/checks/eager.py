"""The eager model as the reference: asked on copies that nothing has touched, and watched for what it does besides."""

import random
import signal
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from service.domain.errors import AnswerTooLarge, ModelRaised
from workers.backward import Gradients, differentiate
from workers.compare import copied
from workers.tracing import graphs, lines, state
from workers.tracing.blame import blamed
from workers.tracing.call import Call
from workers.tracing.checks import watch
from workers.tracing.model import Model
from workers.tracing.source import seed_all

# What gives a tensor's values, or what follows from them, to Python; tolist and numpy show in the tracer's warnings.
_VALUE_READS = {torch.ops.aten._local_scalar_dense, torch.ops.aten.equal, torch.ops.aten.is_nonzero}


_Marks = tuple[state.Marks, state.Marks]  # of the copy, and of what all copies share


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
    """What each call changes, having read what the call before left; and the line of the first such read."""

    name: str
    line: lines.Line | None


@dataclass(frozen=True)
class Observed:
    """What two consecutive calls on the same inputs gave and did."""

    answers: tuple[Answer, Answer]
    carried: list[Carried]
    reads_values: bool  # of tensors, in Python: it may branch on them


class Eager:
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

    def answer(self, call: Call, *, within_s: float | None = None, draw: int = 0) -> Answer:
        """Another `draw` draws other random numbers. Raises ModelRaised with the user's line, and TooSlow."""
        module, before = self._unchanged or self._copy()
        self._unchanged = None
        self._last = module
        with _stopped_after(within_s):
            answer = _answer(module, call, self._seed + draw)
        if self._marks(module) != before:
            return replace(answer, left_state=True)
        self._unchanged = module, before
        return answer

    def next_answer(self, call: Call, *, within_s: float) -> Answer:
        """Of the copy that answered last, with what that call left behind."""
        assert self._last is not None
        with _stopped_after(within_s):
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
        own, shared = ({key for key in old.keys() | new if old.get(key) != new.get(key)}
                       for old, new in zip(before, after, strict=True))  # fmt: skip
        # The source's globals cannot be watched, so what each call changes there is taken to be read.
        carried = [Carried(".".join(key), None) for key in sorted(shared)]
        if own:
            carried += self._read_before_written(module, call, watch.with_statistics(own))
        # What was not watched may have happened.
        return Observed((first, second), carried, reads_values=reads is None or reads.seen)

    def repeated(self, call: Call, times: int) -> list[Answer]:
        """Consecutive calls of one copy, each with other random numbers."""
        module = self._model.fresh()
        return [_answer(module, call, self._seed + time) for time in range(times)]

    def _read_before_written(
        self, module: torch.nn.Module, call: Call, changing: set[tuple[str, str]]
    ) -> list[Carried]:
        """What is only written, such as the attention weights kept for a person to look at, carries nothing on."""
        with watch.reads(module, changing) as seen, suppress(ModelRaised):
            _answer(module, call, self._seed)
        return [Carried(graphs.dotted(*key), seen[key]) for key in sorted(changing) if key in seen]

    def _copy(self) -> tuple[torch.nn.Module, _Marks]:
        module = self._model.fresh()
        return module, self._marks(module)

    def _marks(self, module: torch.nn.Module) -> _Marks:
        return state.of_module(module), self._model.shared.marks()


def live_answer(module: torch.nn.Module, call: Call, seed: int, *, within_s: float | None) -> Answer:
    """Of this very module, with whatever earlier calls left behind. Raises ModelRaised and TooSlow."""
    with _stopped_after(within_s):
        return _answer(module, call, seed)


def live_gradients(
    module: torch.nn.Module, call: Call, seed: int, *, within_s: float | None, most_bytes: int
) -> Gradients:
    """The same of it and of the way back. Raises AnswerTooLarge besides."""

    def run(given: Mapping[str, torch.Tensor]) -> Any:
        return call.with_tensors(given).run(module)

    seed_all(seed)
    doing = f"{call.method}, or the way back through it, raised"
    with _stopped_after(within_s), blamed(ModelRaised, doing, method=call.method):
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


def _answer(module: torch.nn.Module, call: Call, seed: int) -> Answer:
    cloned = call.cloned()
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
def _stopped_after(seconds: float | None) -> Iterator[None]:
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
