"""Baked values: the model is traced again on other values in the example's shapes, and what differs was baked in."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import torch

from tracehouse.check.calls import call_artifact
from tracehouse.check.graph_diff.canonical import CanonicalGraph, GraphDivergence, find_divergences
from tracehouse.check.observe import Observation
from tracehouse.check.target import Target
from tracehouse.check.time_limit import TooSlow, time_limit
from tracehouse.differential.budget import Budget
from tracehouse.differential.call_limits import CALL_LIMITS
from tracehouse.differential.comparison import Difference
from tracehouse.eager.call import Call
from tracehouse.errors import ModelRaised
from tracehouse.introspection import user_lines
from tracehouse.torch_values import resizing

# again: a second trace of the same example differs, because of state, chance or something outside the model.
# values: a trace on other values differs.
Cause = Literal["again", "values"]


@dataclass(frozen=True)
class BakedValue:
    """A place where the graph depends on more than the model.

    `confirmed` is whether the artifact is wrong on `call`; it is None if eager refuses the call or takes too long.
    """

    cause: Cause
    divergence: GraphDivergence
    call: Call
    confirmed: bool | None = None
    difference: Difference | None = None

    @property
    def line(self) -> user_lines.Line | None:
        """The line at fault."""
        return self.divergence.origin


def find_baked_values(
    target: Target, budget: Budget, seen: Observation | None = None, *, tries_values: bool = True
) -> list[BakedValue]:
    """Return where the artifact's graph differs from the graphs of other traces, each line once.

    Without `tries_values`, no trace is made on other values than the example's.

    If a second trace of the example already differs, no other values are tried, because they would prove nothing. There
    is no further one if the trace that was `seen` has the artifact's graph.
    Traces for which the budget leaves no time are left out. Nothing that the model or the tracer raises comes out.
    """
    if target.retrace is None:
        return []
    found: dict[user_lines.Line | None, BakedValue] = {}
    again, trace_s = (None, 0.0) if seen is None else (seen.baseline, seen.trace_s)
    if again is None or find_divergences(target.graph, again, limit=1):
        started = time.monotonic()
        again = _trace(target, target.call, max(budget.left_s, CALL_LIMITS.second_trace.seconds))
        trace_s = time.monotonic() - started
    if again is not None:
        found |= {baked.line: baked for baked in _compare("again", target.graph, again, target.call)}
    if found or not tries_values:
        return [*found.values()]
    for name, call in _other_values(target.call, target.seed):
        if budget.is_spent:
            budget.leave_out(f"no trace was made on {name}")
            continue
        other = _trace(target, call, min(budget.left_s, CALL_LIMITS.second_trace.after(trace_s)))
        for baked in _compare("values", target.graph, other, call) if other is not None else ():
            if baked.line not in found or not found[baked.line].confirmed:
                found[baked.line] = _confirm(target, baked)
    return [*found.values()]


def _trace(target: Target, call: Call, within_s: float) -> CanonicalGraph | None:
    """Return the graph of a trace of the call; None if the call cannot be traced in time, which proves nothing."""
    try:
        # Other values can make one of the model's loops very long.
        with time_limit(within_s):
            return target.trace_again(call)
    except (Exception, TooSlow):  # noqa: BLE001 - submitted code, and torch's tracer of it
        return None


def _compare(cause: Cause, was: CanonicalGraph, now: CanonicalGraph, call: Call) -> Iterator[BakedValue]:
    for divergence in find_divergences(was, now):
        yield BakedValue(cause, divergence, call)


def _confirm(target: Target, baked: BakedValue) -> BakedValue:
    """Compare the artifact with eager on the call of the other trace, and return the value with the result."""
    try:
        eager = target.eager.answer(baked.call, within_s=target.single_s)
    except (ModelRaised, TooSlow):
        return baked
    try:
        artifact = call_artifact(target.artifact, baked.call, target.eager.seed)
    except Exception as error:  # noqa: BLE001 - TorchScript raises of every kind
        raised = Difference("output", f"the artifact raised {user_lines.error_text(error)}")
        return replace(baked, confirmed=True, difference=raised)
    found = target.eager.compare(baked.call, eager, artifact, target.tolerance).difference
    return replace(baked, confirmed=found is not None, difference=found)


def _other_values(call: Call, seed: int) -> Iterator[tuple[str, Call]]:
    """Yield calls with other values, each with a name; a change that leaves all values as they are is left out."""
    tensors = call.tensors
    for name, change in _CHANGES:
        generator = torch.Generator().manual_seed(seed)
        changed = {leaf: change(tensor, generator) for leaf, tensor in tensors.items()}
        if any(not torch.equal(changed[leaf], tensor) for leaf, tensor in tensors.items()):
            yield name, call.with_tensors(changed)


def _negate_and_enlarge(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    if not tensor.is_floating_point():
        return _permute(tensor, generator)
    noise = torch.randn(tensor.shape, generator=generator).to(tensor)
    return -3 * tensor + noise


def _shrink_and_permute(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    permuted = _permute(tensor, generator)
    return permuted * 0.01 if tensor.is_floating_point() and not resizing.is_mask(tensor) else permuted


def _make_constant(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:  # noqa: ARG001
    """Return zeros for floats and booleans. Integers all become the largest one, so that a mask becomes all ones."""
    if tensor.is_floating_point():
        return torch.zeros_like(tensor)
    if tensor.numel() == 0 or tensor.dtype is torch.bool:
        return torch.zeros_like(tensor)
    return torch.full_like(tensor, int(tensor.cpu().numpy().max()))


def _permute(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return the tensor's own values in other places."""
    order = torch.randperm(tensor.numel(), generator=generator).to(tensor.device)
    return resizing.take(tensor.reshape(-1), order).reshape(tensor.shape)


_CHANGES: tuple[tuple[str, Callable[[torch.Tensor, torch.Generator], torch.Tensor]], ...] = (
    ("larger and negated values", _negate_and_enlarge),
    ("small values in another order", _shrink_and_permute),
    ("constant values", _make_constant),
)
