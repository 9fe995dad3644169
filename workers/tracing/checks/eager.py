"""The eager model as the reference: asked on copies that nothing has touched, and watched for what it does besides."""

import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np
import torch

from service.domain.errors import ModelRaised
from workers.tracing.blame import blamed
from workers.tracing.call import Call
from workers.tracing.checks.compare import copied
from workers.tracing.model import Model
from workers.tracing.source import seed_all

_ITEMS_MAX = 64  # of a container that are looked at for a change


class TooSlow(BaseException):
    """Eager was stopped. Not an Exception, so that no model takes it for its own."""


@dataclass(frozen=True)
class Answer:
    """What a call gave; `inputs` are as the call left them."""

    outputs: Any
    inputs: dict[str, torch.Tensor]
    drew: bool = False  # a random number


class Eager:
    """Calls on the untouched model: where a call changes it, the next call gets another copy."""

    def __init__(self, model: Model, seed: int) -> None:
        self._model = model
        self._seed = seed
        self._unchanged: tuple[torch.nn.Module, list[Any]] | None = None  # a copy, and its attributes' marks

    def answer(self, call: Call, *, within_s: float | None = None) -> Answer:
        """Raises ModelRaised with the user's line, and TooSlow."""
        module, before = self._unchanged or self._copy()
        self._unchanged = None
        with _stopped_after(within_s):
            answer = _answer(module, call, self._seed)
        if _fingerprint(module) == before:
            self._unchanged = module, before
        return answer

    def repeated(self, call: Call, times: int) -> list[Answer]:
        """Consecutive calls of one copy, each with other random numbers."""
        module = self._model.fresh()
        return [_answer(module, call, self._seed + time) for time in range(times)]

    def _copy(self) -> tuple[torch.nn.Module, list[Any]]:
        module = self._model.fresh()
        return module, _fingerprint(module)


def artifact_answer(module: torch.jit.ScriptModule, call: Call, seed: int) -> Answer:
    """The same of the artifact. Raises whatever it raises."""
    cloned = call.cloned()
    seed_all(seed)
    with torch.no_grad():
        return Answer(copied(cloned.run_traced(module)), cloned.tensors)


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
    return torch.get_rng_state().numpy().tobytes(), random.getstate(), np.asarray(keys).tobytes(), position


def _fingerprint(module: torch.nn.Module) -> list[Any]:
    """Equal where no attribute of the module changed. Blind to what lies deeper, as in an object's attributes."""
    return [
        (name, key, _mark(value)) for name, part in module.named_modules() for key, value in list(vars(part).items())
    ]


def _mark(value: Any) -> Any:
    match value:
        case torch.Tensor():
            return id(value), None if value.is_inference() else value._version
        case dict():
            return [(str(key), _shallow_mark(item)) for key, item in list(value.items())[:_ITEMS_MAX]], len(value)
        case list() | tuple():
            return [_shallow_mark(item) for item in value[:_ITEMS_MAX]], len(value)
        case set():
            return id(value), len(value)
    return _shallow_mark(value)


def _shallow_mark(value: Any) -> Any:
    match value:
        case torch.Tensor():
            return id(value), None if value.is_inference() else value._version
        case bool() | int() | float() | str() | None:
            return repr(value)
    return id(value)


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
