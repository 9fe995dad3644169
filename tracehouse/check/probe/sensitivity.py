"""Sensitivity: whether the answers of both models move as far if only the last bits of their inputs change.

A model may divide by the spread of its input, and normalise the result. Where all values are equal, that leaves nothing
but rounding: two orders of one sum give answers that have nothing in common, and neither is an error.
"""

import math
from collections.abc import Callable, Iterator, Sequence

import torch

from tracehouse.check.calls import CallResult
from tracehouse.check.instrumentation.value_reads import ReadRecorder
from tracehouse.check.oracle import EagerOracle
from tracehouse.check.time_limit import TooSlow
from tracehouse.eager.call import Call
from tracehouse.errors import ModelRaised
from tracehouse.torch_values import returned
from tracehouse.torch_values.compare import compare

_DRAWS = 4  # so many times the last bits are changed
_TIMES = 2.0  # the artifact may be so many times as far from eager's answer as that moves; a choice
# An answer that moves by more than this on the example itself excuses nothing: such a model has no reference. A choice.
_STEADY = 1e-3


Ask = Callable[[Call], CallResult]


class Sensitivity:
    """How far the answers of the eager model and of its artifact move.

    `ask_artifact` returns the artifact's answer, `tolerance` is relative, and `seed` draws the bits.
    """

    def __init__(self, eager: EagerOracle, ask_artifact: Ask, example: Call, *, tolerance: float, seed: int) -> None:
        self._eager = eager
        self._ask_artifact = ask_artifact
        self._example = example
        self._tolerance = tolerance
        self._seed = seed

    def explains(self, call: Call, answer: CallResult, *, within_s: float) -> bool:
        """Whether the artifact's answer differs from `answer`, the eager model's, by rounding alone.

        It does so if both move as far by themselves, and only where they move. It does not if Python reads a value in
        the call: a branch on values may be what differs.
        """

        def ask_eager(other: Call) -> CallResult:
            return self._eager.answer(other, within_s=within_s)

        try:
            artifact = self._ask_artifact(call)
            if not self._is_comparable(answer, artifact) or self._reads_values(call, ask_eager):
                return False
            if not self._is_steady_on_example(ask_eager):
                return False
            own, others = ([ask(one) for one in self._move(call)] for ask in (ask_eager, self._ask_artifact))
        except (ModelRaised, TooSlow, RuntimeError):  # whatever an artifact raises is a RuntimeError
            return False
        return self._explains_all(answer, artifact, own) and self._explains_all(artifact, answer, others)

    def _is_comparable(self, answer: CallResult, artifact: CallResult) -> bool:
        """Whether neither drew random numbers, and both left the inputs alike."""
        if answer.drew or artifact.drew:
            return False
        return compare(answer.inputs, artifact.inputs, self._tolerance, "input").agrees

    def _reads_values(self, call: Call, ask_eager: Ask) -> bool:
        with ReadRecorder(call) as recorder:
            ask_eager(call)
        return any(read.depends_on == "values" for read in recorder.reads.values())

    def _is_steady_on_example(self, ask_eager: Ask) -> bool:
        answer = ask_eager(self._example)
        moved = (ask_eager(one) for one in self._move(self._example))
        return all(compare(answer.outputs, one.outputs, _STEADY).agrees for one in moved)

    def _move(self, call: Call) -> Iterator[Call]:
        """Yield calls of which the floats differ from those of the given call in the last bits."""
        for draw in range(_DRAWS):
            generator = torch.Generator().manual_seed(self._seed + draw)
            yield call.with_tensors(
                {path: _change_last_bits(tensor, generator) for path, tensor in call.tensors.items()}
            )

    def _explains_all(self, answer: CallResult, other: CallResult, moved: Sequence[CallResult]) -> bool:
        """Whether the other answer is no farther from `answer` than the moved ones, in each leaf."""
        leaves, others = returned.tensors(answer.outputs), returned.tensors(other.outputs)
        moves = [returned.tensors(one.outputs) for one in moved]
        if any(one.keys() != leaves.keys() for one in [others, *moves]):
            return False
        return all(self._explains(leaf, others[name], [one[name] for one in moves]) for name, leaf in leaves.items())

    def _explains(self, leaf: torch.Tensor, other: torch.Tensor, moved: Sequence[torch.Tensor]) -> bool:
        if compare(leaf, other, self._tolerance).agrees:
            return True
        if not leaf.is_floating_point() or any(one.shape != leaf.shape for one in [other, *moved]):
            return False
        apart, reach = _distance(leaf, other), torch.stack([_distance(leaf, one) for one in moved]).amax(0)
        allowed = self._tolerance * max(_largest(leaf), _largest(other))
        return bool((apart <= allowed)[reach <= allowed].all()) and float(apart.max()) <= _TIMES * float(reach.max())


def _change_last_bits(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return floats of which each is moved to the next number above or below, and a copy of all else."""
    if not tensor.is_floating_point():
        return tensor.clone()
    upwards = torch.randint(0, 2, tensor.shape, generator=generator).to(tensor.device) == 1
    eps = torch.finfo(tensor.dtype).eps
    return torch.where(upwards, tensor * (1 + eps), tensor * (1 - eps))


def _distance(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Return how far each element is apart: infinitely where only one of both is a number."""
    distance = (first.double() - second.double()).abs()
    same = (first == second) | (first.isnan() & second.isnan())
    return torch.where(same, 0.0, distance.nan_to_num(nan=math.inf))


def _largest(values: torch.Tensor) -> float:
    return float(values.abs().nan_to_num().max())
