"""Values: traces of other values in the example's shapes; what differs in their graphs was baked in."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import torch

from tracehouse.check.calls import call_artifact
from tracehouse.check.graph_diff.canonical import Canonical, GraphDivergence, canonical, difference
from tracehouse.check.target import Target
from tracehouse.check.time_limit import TooSlow, time_limit
from tracehouse.differential.budget import Budget
from tracehouse.differential.call_limits import CALL_LIMITS
from tracehouse.differential.comparison import Difference
from tracehouse.eager.call import Call
from tracehouse.errors import ModelRaised
from tracehouse.introspection import user_lines
from tracehouse.torch_values import resizing
from tracehouse.torch_values.compare import compare

# again: a second trace of the same example is another one, by state, by chance or by what lies outside the model.
Cause = Literal["again", "values"]
Tensors = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class BakedValue:
    """A place where the graph depends on more than the model. `confirmed`: the artifact is wrong on `call`; it is None
    where eager refuses the call or takes too long."""

    cause: Cause
    parting: GraphDivergence
    call: Call
    confirmed: bool | None = None
    difference: Difference | None = None

    @property
    def line(self) -> user_lines.Line | None:
        return self.parting.origin


def compare_values(target: Target, budget: Budget) -> list[BakedValue]:
    """What differs between the artifact's graph and those of other traces, each line once."""
    if target.retrace is None:
        return []
    found: dict[user_lines.Line | None, BakedValue] = {}
    started = time.monotonic()
    again = _traced(target, target.call, max(budget.left_s, CALL_LIMITS.second_trace.seconds))
    trace_s = time.monotonic() - started
    if again is not None:
        found |= {one.line: one for one in _baked("again", target.graph, again, target.call)}
    if found:
        return [*found.values()]  # of which no trace of other values can be told
    for name, call in _other_values(target.call, target.seed):
        if budget.is_spent:
            budget.leave_out(f"a trace of {name}")
            continue
        other = _traced(target, call, min(budget.left_s, CALL_LIMITS.second_trace.after(trace_s)))
        for one in _baked("values", target.graph, other, call) if other is not None else ():
            if one.line not in found or not found[one.line].confirmed:
                found[one.line] = _confirmed(target, one)
    return [*found.values()]


def _traced(target: Target, call: Call, within_s: float) -> Canonical | None:
    """None where eager refuses such values, or cannot be traced on them, or not in time: that is no fault."""
    try:
        # Other values can make a loop of the model's very long.
        with time_limit(within_s):
            return canonical(target.traced_again(call), target.method)
    except (Exception, TooSlow):  # noqa: BLE001 - submitted code, and torch's tracer of it
        return None


def _baked(cause: Cause, was: Canonical, now: Canonical, call: Call) -> Iterator[BakedValue]:
    for parting in difference(was, now):
        yield BakedValue(cause, parting, call)


def _confirmed(target: Target, one: BakedValue) -> BakedValue:
    try:
        eager = target.eager.answer(one.call, within_s=CALL_LIMITS.single_s)
    except (ModelRaised, TooSlow):
        return one
    try:
        artifact = call_artifact(target.artifact, one.call, target.seed)
    except Exception as error:  # noqa: BLE001 - TorchScript raises of every kind
        raised = Difference("output", f"the artifact raised {user_lines.text_of(error)}")
        return BakedValue(one.cause, one.parting, one.call, confirmed=True, difference=raised)
    found = compare(eager.outputs, artifact.outputs, target.tolerance).difference
    return BakedValue(one.cause, one.parting, one.call, confirmed=found is not None, difference=found)


def _other_values(call: Call, seed: int) -> Iterator[tuple[str, Call]]:
    """Those that change nothing left out."""
    given = call.tensors
    for name, change in _CHANGES:
        generator = torch.Generator().manual_seed(seed)
        changed = {leaf: change(tensor, generator) for leaf, tensor in given.items()}
        if any(not torch.equal(changed[leaf], tensor) for leaf, tensor in given.items()):
            yield name, call.with_tensors(changed)


def _large_and_negative(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    if not tensor.is_floating_point():
        return _permuted(tensor, generator)
    noise = torch.randn(tensor.shape, generator=generator).to(tensor)
    return -3 * tensor + noise


def _small_and_permuted(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    permuted = _permuted(tensor, generator)
    return permuted * 0.01 if tensor.is_floating_point() and not resizing.is_mask(tensor) else permuted


def _constant(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:  # noqa: ARG001
    """Zeros for floats and false; the largest for integers, and true for a mask of ones and zeros."""
    if tensor.is_floating_point():
        return torch.zeros_like(tensor)
    if tensor.numel() == 0 or tensor.dtype is torch.bool:
        return torch.zeros_like(tensor)
    return torch.full_like(tensor, int(tensor.cpu().numpy().max()))


def _permuted(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Its own values in other places; of a mask that is all alike there is no other."""
    order = torch.randperm(tensor.numel(), generator=generator).to(tensor.device)
    return resizing.taken(tensor.reshape(-1), order).reshape(tensor.shape)


_CHANGES: tuple[tuple[str, Callable[[torch.Tensor, torch.Generator], torch.Tensor]], ...] = (
    ("larger and negated values", _large_and_negative),
    ("small values in another order", _small_and_permuted),
    ("constant values", _constant),
)
