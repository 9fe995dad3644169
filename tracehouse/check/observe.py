"""Observing the eager model on its example: the values that it reads in Python, and what it asks for besides."""

import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from tracehouse.check.calls import Answer
from tracehouse.check.graph_diff.canonical import CanonicalGraph, GraphDivergence, canonicalize, find_divergences
from tracehouse.check.instrumentation.ambient_reads import (
    TO_DLPACK,
    AmbientEffect,
    AmbientRead,
    AmbientRecorder,
    ContextRead,
    can_be_replaced,
    make_alternatives,
    pretend_tracing,
)
from tracehouse.check.instrumentation.value_reads import MEMORY_METHODS, ReadRecorder, ReadSite, ValueRead
from tracehouse.check.target import Target
from tracehouse.check.time_limit import TooSlow, time_limit
from tracehouse.differential.budget import Budget
from tracehouse.differential.call_limits import CALL_LIMITS
from tracehouse.eager.call import Call
from tracehouse.errors import ModelRaised
from tracehouse.torch_values.compare import compare


@dataclass(frozen=True)
class Observation:
    """`baseline` is the graph of a trace whose reads were watched, to compare others with that are watched as well."""

    answer: Answer | None
    reads: list[ValueRead]
    recorded: frozenset[ReadSite]  # of the reads, those that a trace comes by
    ambient: list[AmbientEffect]
    contexts: list[ContextRead]
    traced_otherwise: str | None  # how the answer differs where the model is told that it is being traced
    numbers: frozenset[float]  # that tensors were compared with
    baseline: CanonicalGraph | None
    in_torch: bool  # whether operators could be watched
    trace_s: float = 0.0  # what the baseline took

    @property
    def hands_memory_out(self) -> bool:
        """Code that is not torch's may go to an address that it was given."""
        by_function = any(one.name == TO_DLPACK for one in self.contexts)
        return by_function or any(read.site.kind in MEMORY_METHODS for read in self.reads)

    @property
    def within_s(self) -> float:
        """For a trace in which something is changed."""
        return CALL_LIMITS.changed_trace.after(self.trace_s)


def observe(target: Target, budget: Budget) -> Observation:
    """Nothing that the model raises comes out. What it asks for is tried within the budget."""
    asking = AmbientRecorder()
    answer, reading = _eager_reads(target, asking)
    if target.retrace is None:
        return Observation(
            answer, [], frozenset(), _ambient(target, answer, asking.reads, None, budget), [*asking.contexts], None,
            frozenset(), None, in_torch=False,
        )  # fmt: skip
    started = time.monotonic()
    baseline, recorded, in_torch = _traced_reads(target)
    trace_s = time.monotonic() - started
    return Observation(
        answer=answer,
        reads=_merged(recorded.reads if recorded else {}, reading.reads if reading else {}),
        recorded=frozenset(recorded.reads) if recorded else frozenset(),
        ambient=_ambient(target, answer, asking.reads, baseline, budget),
        contexts=[*asking.contexts],
        traced_otherwise=_traced_otherwise(target, answer, asking.contexts, budget),
        numbers=frozenset(reading.taint.numbers) if reading else frozenset(),
        baseline=baseline,
        in_torch=in_torch,
        trace_s=trace_s,
    )


def watched_trace(
    target: Target,
    reading: ReadRecorder,
    call: Call | None = None,
    within_s: float = CALL_LIMITS.observed_s,
    world: AbstractContextManager[Any] | None = None,
) -> CanonicalGraph:
    """The graph of a new trace, on the example or on another call, in a world of its own. Raises what tracing raises,
    and TooSlow."""
    with time_limit(within_s):
        module = target.traced_again(call, within=_both(reading, world or nullcontext()))
    return canonicalize(module, target.method)


@contextmanager
def _both(first: AbstractContextManager[Any], second: AbstractContextManager[Any]) -> Iterator[None]:
    with first, second:
        yield


def _eager_reads(target: Target, asking: AmbientRecorder) -> tuple[Answer | None, ReadRecorder | None]:
    for in_torch in (True, False):
        reading = ReadRecorder(target.call, in_torch=in_torch)
        try:
            with reading, asking:
                return target.eager.answer(target.call, within_s=CALL_LIMITS.observed_s), reading
        except (ModelRaised, TooSlow):  # a model that traces functions itself does not get through a mode
            continue
    return None, None


def _traced_reads(target: Target) -> tuple[CanonicalGraph | None, ReadRecorder | None, bool]:
    for in_torch in (True, False):
        reading = ReadRecorder(target.call, in_torch=in_torch)
        try:
            return watched_trace(target, reading), reading, in_torch
        except (Exception, TooSlow):  # noqa: BLE001 - submitted code: anything may come out of it
            continue
    return None, None, False


def _merged(recorded: dict[ReadSite, ValueRead], eager: dict[ReadSite, ValueRead]) -> list[ValueRead]:
    """What the two saw at a site. A size is a number in eager, and a tensor while it is traced."""
    for site, read in eager.items():
        if site in recorded:
            recorded[site].numbers |= read.numbers
            recorded[site].comparands = read.comparands  # while it is traced, no buffer can be looked into
            if read.depends_on == "values":
                recorded[site].depends_on = "values"
    only_eager = [read for site, read in eager.items() if site not in recorded and read.depends_on == "values"]
    return [*recorded.values(), *only_eager]


def _ambient(
    target: Target, answer: Answer | None, asked: Iterable[AmbientRead], baseline: CanonicalGraph | None, budget: Budget
) -> list[AmbientEffect]:
    return [_tried(target, answer, one, baseline, budget) for one in asked]


def _tried(
    target: Target, answer: Answer | None, asked: AmbientRead, baseline: CanonicalGraph | None, budget: Budget
) -> AmbientEffect:
    if not can_be_replaced(asked):
        return AmbientEffect(asked, "unknown", f"{asked.name}: nothing could be put in its place")
    tried = 0
    for name, world in make_alternatives(asked):
        if budget.is_spent:
            budget.leave_out(f"{asked.name} at {asked.line.file}:{asked.line.line}, from {name!r} on")
            return AmbientEffect(asked, "unknown", "there was no time to put all others in its place")
        try:
            differs = None if answer is None else _answers_otherwise(target, answer, world, budget)
            if differs is None and baseline is not None and tried == 0:
                differs = _traces_otherwise(
                    target, baseline, next(other for _, other in make_alternatives(asked)), budget
                )
        except (Exception, TooSlow):  # noqa: BLE001 - submitted code: such a world is none for this model
            continue
        if differs is not None:
            return AmbientEffect(asked, "harmful", f"with {name}, {differs}")
        tried += 1
    if not tried or answer is None:
        return AmbientEffect(asked, "unknown", "the model does not run where another is found")
    return AmbientEffect(asked, "harmless", "the answer and the graph are the same where another is found")


def _answers_otherwise(
    target: Target, answer: Answer, world: AbstractContextManager[Any], budget: Budget
) -> str | None:
    """The seed is the same, and so are the random numbers that are drawn by it."""
    again = target.eager.answer(target.call, within_s=_within_s(budget), world=world)
    found = compare(answer.outputs, again.outputs, 0.0 if answer.drew else target.tolerance).difference
    return None if found is None else f"{found.leaf} differs: {found.what}"


def _within_s(budget: Budget) -> float:
    """In another world a loop may not end."""
    return min(CALL_LIMITS.observed_s, max(CALL_LIMITS.changed_trace.seconds, budget.left_s))


def _traces_otherwise(
    target: Target, baseline: CanonicalGraph, world: AbstractContextManager[Any], budget: Budget
) -> str | None:
    graph = watched_trace(target, ReadRecorder(target.call), within_s=_within_s(budget), world=world)
    parted = find_divergences(baseline, graph, limit=1)
    return f"another graph is recorded: {shown(parted[0])}" if parted else None


def _traced_otherwise(
    target: Target, answer: Answer | None, contexts: Iterable[ContextRead], budget: Budget
) -> str | None:
    if answer is None or not any(one.name == "torch.jit.is_tracing" for one in contexts):
        return None
    try:
        return _answers_otherwise(target, answer, pretend_tracing(), budget)
    except (Exception, TooSlow):  # noqa: BLE001 - submitted code: it believes that it is traced, and is not
        return None


def shown(parting: GraphDivergence) -> str:
    return f"{parting.operator}: {parting.was} became {parting.is_}"
