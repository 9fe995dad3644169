"""Random operators: which calls of operators draw random numbers from a generator of torch, and in which order."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from tracehouse.torch_values.generators import read_generators

SETS_STATE = "the state of a generator is set"

_RECURRENT = {"lstm", "gru", "rnn_tanh", "rnn_relu"}


def draws_random_numbers(operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether this call draws. One with a dropout that is turned off, or has no probability, does not."""
    if torch.Tag.nondeterministic_seeded not in operator.tags:
        return False
    names = [argument.name for argument in operator._schema.arguments]
    operands = {**dict(zip(names, args, strict=False)), **kwargs}
    if operands.get("train", operands.get("training")) is False:
        return False
    name = operator._schema.name.rpartition("::")[2]
    probability = operands.get("dropout_p", operands.get("dropout"))
    return not (("attention" in name or name in _RECURRENT) and not probability)


class DrawRecorder:
    """Records in which order a run draws random numbers, and where it sets the state of a generator.

    A trace records neither a setting nor a draw that nothing uses, and both change what is drawn later.
    """

    def __init__(self) -> None:
        self.events: list[str] = []
        self._expected: list[bytes] = []

    def advance(self) -> None:
        """Draw a number, so that the state is one that no seed gives, and expect this state from now on."""
        torch.rand((), device="cpu")
        self._expected = read_generators()

    def note_draw(self, operator: Any, outputs: Any) -> None:
        """Note that the operator drew these outputs."""
        values = outputs if isinstance(outputs, list | tuple) else [outputs]
        shapes = [list(one.shape) for one in values if isinstance(one, torch.Tensor)]
        self.events.append(f"{operator._schema.name} gives {shapes}")
        self._expected = read_generators()

    def note_setting(self) -> bool:
        """Whether something other than a noted draw has changed the state, which is an event too."""
        state = read_generators()
        is_set = state != self._expected
        if is_set:
            self.events.append(SETS_STATE)
            self._expected = state
        return is_set
