"""Memory plan: what a check may take, decided before it begins, and what it leaves out if the whole does not fit.

The whole check takes three times the model and one call at most: the model itself, its copy in float64, which is twice
as large, and a call of this copy beside the answers that are compared. Everything else shares the model's parameters.
If that is more than the process may take, parts are left out in this order:

1. Calls of larger sizes than fit: the contract is narrower, where such sizes are not proven.
2. Answers in float64: the fixed tolerance decides instead whether a difference is rounding.
3. The certificate for batches, whose calls join rows: requests are answered one by one.

What is left, calls on inputs of the example's sizes, is what the model itself needs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf

import torch

from tracehouse.byte_units import MIB
from tracehouse.contract.memory import format_mib
from tracehouse.eager.call import Call
from tracehouse.findings.check_memory import CheckMemory

# How many times the model and one call a check takes at most.
TIMES_MAX = 3
# What a check may take beside, whatever the model's size: Python's objects (graphs, proofs, what is recorded of calls),
# calls of larger sizes, and an archive that is on its way. Measured by benchmarks/check_memory.py: 220 MiB for a
# Conformer, which is proven in many runs, and less for the others.
BESIDE_BYTES = 256 * MIB
# The copy in float64 may have so many bytes, those of 134 million parameters. Chosen: it fits beside the model where a
# service gives a trace a few gigabytes.
FLOAT64_MAX_BYTES = 1024 * MIB
# A certificate for batches records calls of so many rows.
_ROWS_JOINED = 5

_NO_FLOAT64 = "answers in float64, so that the fixed tolerance decides whether a difference is rounding"
_SMALLER_CALLS = "calls of larger sizes, and of several rows together, that need more than {most}"
_WHY = "the whole check needs {needed} more, and this process may take {free} more"


@dataclass(frozen=True)
class ExampleNeed:
    """What one call on an example takes at one time, in bytes, and how many elements its inputs have."""

    call_bytes: int
    elements: int


@dataclass(frozen=True)
class MemoryPlan:
    """What the check may take. All sizes are in bytes.

    `free_bytes` is what the process may still take beside what it holds; None is no limit. Without examples, the plan
    limits nothing.
    """

    model_bytes: int = 0
    float64_bytes: int = 0  # of the model's copy in float64
    examples: Mapping[str, ExampleNeed] = field(default_factory=dict)  # by method
    free_bytes: int | None = None

    def with_example(self, call: Call, call_bytes: int) -> "MemoryPlan":
        """Return the plan that knows what a call on the example of a method takes."""
        need = ExampleNeed(call_bytes, max(1, _count_elements(call)))
        return replace(self, examples={**self.examples, call.method: need})

    @property
    def call_bytes(self) -> int:
        """What one call takes, of the method that takes most."""
        return max((one.call_bytes for one in self.examples.values()), default=0)

    @property
    def needed_bytes(self) -> int:
        """What the whole check takes at most, the model with it."""
        return self.model_bytes + self._needed_beside_bytes

    @property
    def _needed_beside_bytes(self) -> int:
        """What the whole check takes at most beside the model."""
        float64_bytes = self.float64_bytes if self._has_float64 else 0
        more_bytes = max((TIMES_MAX - 1) * self.model_bytes, float64_bytes)
        return more_bytes + TIMES_MAX * self.call_bytes + BESIDE_BYTES

    @property
    def _has_float64(self) -> bool:
        """Whether the model has a copy in float64, if that fits into memory."""
        return self.float64_bytes <= FLOAT64_MAX_BYTES

    @property
    def most_bytes(self) -> float:
        """What the check may take beside the model: what it needs or, if that is less, what is free."""
        if not self.examples:
            return inf
        needed = self._needed_beside_bytes
        return needed if self.free_bytes is None else min(needed, self.free_bytes)

    def needs(self, call: Call) -> float:
        """Return what a call takes at one time, by what the example takes: as its inputs have elements."""
        example = self.examples.get(call.method)
        if example is None:
            return 0.0
        return example.call_bytes * _count_elements(call) / example.elements

    def why_no_call(self, call: Call) -> str | None:
        """Return why this call is left out; None if it fits. One of the example's size is always made."""
        needed = self.needs(call)
        if needed <= max(self.most_bytes, self.call_bytes):
            return None
        return (
            f"a call needs about {format_mib(int(needed))}, and the check may take {format_mib(int(self.most_bytes))}"
        )

    def why_no_float64(self, call: Call) -> str | None:
        """Return why the call is not answered in float64; None if that fits beside two answers to it."""
        if not self._has_float64:
            return None
        needed = self.float64_bytes + 2 * self.needs(call)
        if needed <= self.most_bytes:
            return None
        return (
            f"it needs {format_mib(int(needed))} more, and the check may take {format_mib(int(self.most_bytes))} more"
        )

    def why_no_batch(self, call: Call) -> str | None:
        """Return why rows like the call's are not joined; None if a few of them fit."""
        needed = _ROWS_JOINED * self.needs(call)
        if needed <= self.most_bytes:
            return None
        return f"{format_mib(int(needed))} are needed, and the check may take {format_mib(int(self.most_bytes))} more"

    def most_input_bytes(self, call: Call) -> float:
        """Return how many bytes the inputs of a call like this one may have, so that the call fits."""
        needed = self.needs(call)
        return inf if not needed else self.most_bytes / needed * call.byte_size

    @property
    def left_out(self) -> list[str]:
        """Return what the check leaves out because the whole does not fit, with the reason."""
        needed = self._needed_beside_bytes
        if not self.examples or self.most_bytes >= needed:
            return []
        parts = (
            [_NO_FLOAT64] if self._has_float64 and self.float64_bytes + 2 * self.call_bytes > self.most_bytes else []
        )
        parts.append(_SMALLER_CALLS.format(most=format_mib(int(self.most_bytes))))
        why = _WHY.format(needed=format_mib(needed), free=format_mib(self.free_bytes or 0))
        return [f"{part} ({why})" for part in parts]

    @property
    def record(self) -> CheckMemory:
        """The plan as the check's record has it."""
        return CheckMemory(
            model_bytes=self.model_bytes,
            call_bytes=self.call_bytes,
            needed_bytes=self.needed_bytes,
            free_bytes=self.free_bytes,
            left_out=self.left_out,
        )


def plan_memory(module: torch.nn.Module, free_bytes: int | None) -> MemoryPlan:
    """Return the plan for a model, as far as it is known before a call. On a GPU, this process's limit is none."""
    tensors = {id(one): one for one in [*module.parameters(), *module.buffers()]}.values()
    on_cpu = all(one.device.type == "cpu" for one in tensors)
    return MemoryPlan(
        model_bytes=sum(map(_byte_size, tensors)),
        float64_bytes=sum(8 * one.numel() if one.is_floating_point() else _byte_size(one) for one in tensors),
        free_bytes=free_bytes if on_cpu else None,
    )


def _byte_size(tensor: torch.Tensor) -> int:
    """Return the bytes of a tensor's elements. One that is sparse has no `nbytes`, and counts as if it were not."""
    return tensor.numel() * tensor.element_size()


def _count_elements(call: Call) -> int:
    return sum(tensor.numel() for tensor in call.tensors.values())
