"""Calls: the live model or its artifact is called once, under a given seed."""

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.autograd.graph import saved_tensors_hooks

from tracehouse.check.time_limit import time_limit
from tracehouse.eager.call import Call
from tracehouse.eager.error_translation import translate_errors
from tracehouse.eager.source import seed_all
from tracehouse.errors import AnswerTooLarge, ModelRaised
from tracehouse.tensors.tensor import TensorSpec
from tracehouse.torch_values import returned
from tracehouse.torch_values.compare import copy_outputs
from tracehouse.torch_values.generators import read_generators
from tracehouse.torch_values.gradients import Gradients, differentiate
from tracehouse.torch_values.tensors import spec_of

_SAVED_MAX_BYTES = 2**16  # of a result that is kept for a way back where nobody is known to go it; chosen


class CallEnded(BaseException):
    """Raised inside a call by what watches it, where the rest of the call could show nothing more.

    No Exception, so that `except Exception` in a model's own code does not catch it.
    """


@dataclass(frozen=True)
class CallResult:
    """The outputs of one call, and its input tensors by path, as the call left them.

    `outputs` is what the method returns, nested as it returns it, with a copy of each tensor.
    """

    outputs: Any
    inputs: dict[str, torch.Tensor]
    drew: bool = False  # the call drew a random number
    drew_in_python: bool = False  # it drew one from Python's or NumPy's generator, which no trace records
    left_state: bool = False  # the call changed the model, or what the model shares with its copies

    @property
    def output_specs(self) -> list[TensorSpec]:
        """The shapes and datatypes of the outputs, without those that have no datatype."""
        named = returned.tensors(self.outputs)
        return [spec for name, tensor in named.items() if (spec := spec_of(name, tensor)) is not None]


def call_model(
    module: torch.nn.Module,
    call: Call,
    seed: int,
    *,
    within_s: float | None = None,
    seeded: bool = True,
    gradients: bool = False,
) -> CallResult:
    """Return the answer of this very module, including the effects of whatever earlier calls left in it.

    The inputs are copied first. `seed` seeds all random generators; without `seeded` they go on from where they are.
    `gradients` enables them, and the outputs are without them all the same.
    Raises ModelRaised with the user's line if the model raises, LimitExceeded if memory runs out, and TooSlow after
    `within_s` seconds.
    """
    with time_limit(within_s):
        cloned = call.clone()
        given = cloned.tensors
        if seeded:
            seed_all(seed)
        before = _Generators.read()
        with (
            _enable_gradients() if gradients else torch.no_grad(),
            translate_errors(ModelRaised, f"{call.method} raised", method=call.method),
        ):
            outputs = copy_outputs(cloned.run(module))
        return _make_result(outputs, cloned, given, before)


def differentiate_model(
    module: torch.nn.Module, call: Call, seed: int, *, within_s: float | None, most_bytes: int
) -> Gradients:
    """Return the outputs of this very module and the gradients of its inputs and parameters.

    Raises ModelRaised with the user's line if the model or its backward pass raises, LimitExceeded if memory runs out,
    TooSlow after `within_s` seconds, and AnswerTooLarge if the inputs and parameters, or the outputs and gradients,
    have more than `most_bytes` bytes.
    """

    def run(tensors: Mapping[str, torch.Tensor]) -> Any:
        return call.with_tensors(tensors).run(module)

    seed_all(seed)
    doing = f"{call.method}, or the way back through it, raised"
    with time_limit(within_s), translate_errors(ModelRaised, doing, method=call.method):
        try:
            return differentiate(run, call.tensors, module, seed, most=most_bytes)
        except AnswerTooLarge as error:
            too_large = error  # raised outside, because the model is not to blame for it
    raise too_large


def call_artifact(module: torch.jit.ScriptModule, call: Call, seed: int, *, gradients: bool = False) -> CallResult:
    """Return the artifact's answer. The inputs are copied, and `seed` seeds all random generators.

    `gradients` enables them. Raises whatever the artifact raises, untranslated.
    """
    cloned = call.clone()
    given = cloned.tensors
    seed_all(seed)
    before = _Generators.read()
    with _enable_gradients() if gradients else torch.no_grad():
        outputs = copy_outputs(cloned.run_traced(module))
    return _make_result(outputs, cloned, given, before)


@contextmanager
def _enable_gradients() -> Iterator[None]:
    """Enable gradients in the body, where no large result is kept for a way back.

    All results together may take far more memory than the call without gradients. A model that itself goes back through
    large results raises.
    """
    with torch.enable_grad(), saved_tensors_hooks(_keep_small, _unpack):
        yield


def _keep_small(tensor: torch.Tensor) -> torch.Tensor | None:
    return tensor.detach() if tensor.nbytes <= _SAVED_MAX_BYTES else None


def _unpack(kept: torch.Tensor | None) -> torch.Tensor:
    if kept is None:
        raise RuntimeError("this call keeps no large results for a backward pass")
    return kept


@dataclass(frozen=True)
class _Generators:
    """The states of all generators of random numbers: torch's on each device; Python's and NumPy's."""

    of_torch: list[bytes]
    of_python: tuple[Any, ...]

    @classmethod
    def read(cls) -> "_Generators":
        _, keys, position, *_ = np.random.get_state(legacy=True)
        return cls(read_generators(), (random.getstate(), np.asarray(keys).tobytes(), position))


def _make_result(outputs: Any, call: Call, given: Mapping[str, torch.Tensor], before: _Generators) -> CallResult:
    after = _Generators.read()
    inputs = {**given, **call.tensors}  # the call may have taken some out of a dict or a list
    return CallResult(outputs, inputs, drew=after != before, drew_in_python=after.of_python != before.of_python)
