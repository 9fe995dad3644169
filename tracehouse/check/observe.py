"""The observe layer: which values the model reads in Python on its example, and what it reads from its process."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from tracehouse.check.calls import CallResult
from tracehouse.check.graph_diff import canonical
from tracehouse.check.graph_diff.canonical import CanonicalGraph, GraphDivergence, find_divergences
from tracehouse.check.instrumentation.ambient_reads import (
    ASKS_ABOUT_TRACING,
    TO_DLPACK,
    AmbientEffect,
    AmbientRead,
    AmbientRecorder,
    ContextRead,
    can_be_replaced,
    is_stopwatch,
    make_alternatives,
    pretend_tracing,
)
from tracehouse.check.instrumentation.asked_settings import DEFAULT_DTYPE
from tracehouse.check.instrumentation.changing_values import ChangingValue, ValueChanger, ValueRecorder
from tracehouse.check.instrumentation.followed_code import follow_code
from tracehouse.check.instrumentation.outside_writes import OutsideWatcher, OutsideWrite
from tracehouse.check.instrumentation.set_orders import SetOrders, may_go_through_sets, turned_orders
from tracehouse.check.instrumentation.unrecorded_writes import UnrecordedWrite, WriteWatcher
from tracehouse.check.instrumentation.value_reads import MEMORY_METHODS, ReadRecorder, ReadSite, ValueRead
from tracehouse.check.oracle import describe_effect
from tracehouse.check.target import Target
from tracehouse.check.time_limit import TooSlow, time_limit
from tracehouse.differential.budget import Budget
from tracehouse.differential.call_limits import CALL_LIMITS
from tracehouse.differential.comparison import ComparisonResult
from tracehouse.eager.call import Call
from tracehouse.errors import ModelRaised
from tracehouse.introspection import user_lines
from tracehouse.torch_values import structure

# A model that asks whether it is traced is compared on floats that are so many times as large. Choices: values that are
# all equal, or zero, would leave nothing but rounding of some models.
_TRACING_SCALES = (1.0, -1.0, 10.0, 1e4, 1e-4)
_NUMBERS_MAX = 8  # so many of the numbers that it compares tensors with are tried; chosen
_CHANGING_MAX = 8  # so many values that change from call to call are tried; chosen
_SLOW_MAX = 3  # so many calls with other values in their place may be stopped; chosen
_TEXT_MAX = 60  # characters of such a value in a finding
_NEAR = 0.87  # values so many times as large are all rounded otherwise; chosen


@dataclass(frozen=True)
class Observation:
    """What one eager call and one trace of the example showed.

    `answer` is None if the eager model could not be watched. `baseline` is the graph of that trace, None if it could
    not be watched. Other traces made under a `ReadRecorder` are compared with it.
    """

    answer: CallResult | None
    reads: list[ValueRead]
    recorded: frozenset[ReadSite]  # the sites of those reads that happen during a trace too
    ambient: list[AmbientEffect]
    contexts: list[ContextRead]
    tracing_difference: str | None  # how the answer differs if torch says that it traces
    numbers: frozenset[float]  # the numbers that tensors were compared with
    baseline: CanonicalGraph | None
    in_torch: bool  # whether operators could be watched
    trace_s: float = 0.0  # how many seconds the trace of the baseline took
    unrecorded: tuple[UnrecordedWrite, ...] = ()
    outside: tuple[OutsideWrite, ...] = ()
    is_cut: bool = False  # whether the budget or a limit cut something

    @property
    def hands_memory_out(self) -> bool:
        """Whether the model gives a tensor's memory to code that is not torch's, which may then read or write it."""
        by_function = any(one.name == TO_DLPACK for one in self.contexts)
        return by_function or any(read.site.kind in MEMORY_METHODS for read in self.reads)

    @property
    def retrace_s(self) -> float:
        """How many seconds a trace with a changed value may take."""
        return CALL_LIMITS.changed_trace.after(self.trace_s)


def observe(target: Target, budget: Budget) -> Observation:
    """Watch one eager call and one trace of the example, and try other values for what the model reads elsewhere.

    Other values for which the budget leaves no time are left out. Nothing that the model raises comes out.
    """
    asking = AmbientRecorder()
    answer, reading = _watch_eager(target, asking, budget)
    if target.retrace is None:
        ambient = _test_ambient_reads(target, answer, asking.reads, None, budget)
        return Observation(
            answer, [], frozenset(), ambient, [*asking.contexts], None, frozenset(), None, in_torch=False
        )
    baseline, recorded, in_torch, trace_s = _watch_example_trace(target, budget)
    numbers = frozenset(reading.taint.numbers) if reading else frozenset()
    unrecorded, outside = _find_writes(target, budget)
    return Observation(
        answer=answer,
        reads=_merge_reads(recorded.reads if recorded else {}, reading.reads if reading else {}),
        recorded=frozenset(recorded.reads) if recorded else frozenset(),
        ambient=_test_ambient_reads(target, answer, asking.reads, baseline, budget),
        contexts=[*asking.contexts],
        tracing_difference=_compare_while_tracing(target, answer, asking.contexts, numbers, budget),
        numbers=numbers,
        baseline=baseline,
        in_torch=in_torch,
        trace_s=trace_s,
        unrecorded=unrecorded,
        outside=outside,
        is_cut=budget.is_cut,
    )


def watch_trace(
    target: Target,
    reading: ReadRecorder,
    call: Call | None = None,
    within_s: float = CALL_LIMITS.observed_s,
    world: AbstractContextManager[Any] | None = None,
) -> CanonicalGraph:
    """Trace the example or another call again, inside `reading` and `world`, and return the graph.

    Raises whatever tracing raises, and TooSlow after `within_s` seconds.
    """
    with time_limit(within_s):
        graph = target.trace_again(call, within=enter_both(reading, world or nullcontext()))
        return graph.with_draws(reading.draws)


@contextmanager
def enter_both(first: AbstractContextManager[Any], second: AbstractContextManager[Any]) -> Iterator[None]:
    """In the body, both contexts are entered, the first one first."""
    with first, second:
        yield


def _watch_eager(
    target: Target, asking: AmbientRecorder, budget: Budget
) -> tuple[CallResult | None, ReadRecorder | None]:
    """Return the answer to the example and what was read on the way; None for both if no call could be watched."""
    for in_torch in (True, False):
        reading = ReadRecorder(target.call, in_torch=in_torch)
        try:
            with reading, asking:
                return target.eager.answer(target.call, within_s=_observed_s(budget)), reading
        except ModelRaised:  # a model that traces functions itself does not get through a mode
            continue
        except TooSlow as slow:
            budget.leave_out(f"what the model reads in a call of its example: {slow}")
            if budget.is_spent:
                break
    return None, None


def _watch_example_trace(
    target: Target, budget: Budget
) -> tuple[CanonicalGraph | None, ReadRecorder | None, bool, float]:
    """Return the graph of a trace, what was read on the way, whether operators were watched, and the seconds it took;
    None if no trace could be watched."""
    for in_torch in (True, False):
        reading = ReadRecorder(target.call, in_torch=in_torch)
        started = time.monotonic()
        try:
            graph = watch_trace(target, reading, within_s=_observed_s(budget))
        except TooSlow as slow:
            budget.leave_out(f"what the model reads while it is traced: {slow}")
            if budget.is_spent:
                break
        except Exception:  # noqa: BLE001 - submitted code: anything may come out of it
            continue
        else:
            return graph, reading, in_torch, time.monotonic() - started
    return None, None, False, 0.0


def _find_writes(target: Target, budget: Budget) -> tuple[tuple[UnrecordedWrite, ...], tuple[OutsideWrite, ...]]:
    """Return what a call changes that a trace does not record: of tensors, and outside of the model."""
    watcher, outside = WriteWatcher(), OutsideWatcher()
    try:
        target.eager.answer(target.call, within_s=_observed_s(budget), world=enter_both(watcher, outside))
    except ModelRaised as error:
        watcher.note_error(error.detail, user_lines.line_of_error(error.__cause__ or error))
    except TooSlow as slow:
        budget.leave_out(f"what the model writes that a trace does not record: {slow}")
    found = outside.found
    if outside.names_imported:
        again = OutsideWatcher(imported=True)
        with suppress(ModelRaised, TooSlow):
            target.eager.answer(target.call, within_s=_observed_s(budget), world=again)
        found |= again.found
    return tuple(watcher.found), tuple(found)


def _observed_s(budget: Budget) -> float:
    """Return how many seconds the example may take while it is watched, which makes it slower."""
    return min(CALL_LIMITS.observed_s, max(CALL_LIMITS.observed_least_s, budget.left_by_the_clock_s))


def _merge_reads(recorded: dict[ReadSite, ValueRead], eager: dict[ReadSite, ValueRead]) -> list[ValueRead]:
    """Merge the reads of the trace and of the eager call, by site.

    Of those that only the eager call made, just reads of values count: a size is a number in eager, and a tensor in a
    trace.
    """
    for site, read in recorded.items():
        read.in_eager = site in eager
    for site, read in eager.items():
        if site in recorded:
            recorded[site].numbers |= read.numbers
            recorded[site].comparands = read.comparands  # while it is traced, no buffer can be looked into
            if read.depends_on == "values":
                recorded[site].depends_on = "values"
    only_eager = [read for site, read in eager.items() if site not in recorded and read.depends_on == "values"]
    return [*recorded.values(), *only_eager]


def _test_ambient_reads(
    target: Target,
    answer: CallResult | None,
    asked: Iterable[AmbientRead],
    baseline: CanonicalGraph | None,
    budget: Budget,
) -> list[AmbientEffect]:
    # Other values are those of all reads of one thing.
    things = {one: (one.kind, one.key, is_stopwatch(one)) for one in asked}
    tested: dict[tuple[str, str | None, bool], AmbientEffect] = {}
    for one, thing in things.items():
        if thing not in tested:
            tested[thing] = _test_ambient_read(target, answer, one, baseline, budget)
    effects = [replace(tested[thing], read=one) for one, thing in things.items()]
    return [*effects, *_test_set_orders(target, answer, budget), *_test_changing_values(target, answer, budget)]


def _test_ambient_read(
    target: Target, answer: CallResult | None, asked: AmbientRead, baseline: CanonicalGraph | None, budget: Budget
) -> AmbientEffect:
    if not can_be_replaced(asked):
        return AmbientEffect(asked, "unknown", f"the check cannot replace what {asked.name} returns")
    tried = 0
    for name, world in make_alternatives(asked):
        if budget.is_spent:
            budget.leave_out(
                f"other values of {asked.name} at {asked.line.file}:{asked.line.line} were not tried, from {name!r} on"
            )
            return AmbientEffect(asked, "unknown", "the check had no time to try all other values")
        try:
            as_here = asked.name == DEFAULT_DTYPE
            differs = None if answer is None else _describe_other_answer(target, answer, world, budget, as_here=as_here)
            # What a model logs where a setting asks for it is in the graph, and decides nothing.
            if differs is None and baseline is not None and tried == 0 and asked.kind != "setting":
                differs = _describe_other_graph(
                    target, baseline, next(other for _, other in make_alternatives(asked)), budget
                )
        except (Exception, TooSlow):  # noqa: BLE001 - submitted code: such a world is none for this model
            continue
        if differs is not None:
            return AmbientEffect(asked, "harmful", f"with {name}, {differs}")
        tried += 1
    if not tried or answer is None:
        return AmbientEffect(asked, "unknown", "the model could not be run with another value")
    return AmbientEffect(
        asked, "harmless", "the answer and the graph stay the same with every other value that was tried"
    )


def _test_set_orders(target: Target, answer: CallResult | None, budget: Budget) -> list[AmbientEffect]:
    """Return the lines that go through a set whose order is another in each process, if the answer depends on it."""
    if answer is None or not may_go_through_sets():
        return []
    for name, turn in turned_orders().items():
        orders = SetOrders(turn)
        try:
            differs = _describe_other_answer(target, answer, follow_code(orders), budget)
        except (Exception, TooSlow):  # noqa: BLE001 - submitted code: it refuses this order
            continue
        if differs is not None:
            reason = f"texts and objects are hashed anew in each process, and gone through {name}, {differs}"
            return [
                AmbientEffect(AmbientRead("order", "a set in the order of its hashes", line), "harmful", reason)
                for line in orders.lines
            ]
        if not orders.lines:
            break
    return []


def _test_changing_values(target: Target, answer: CallResult | None, budget: Budget) -> Iterator[AmbientEffect]:
    """Yield the lines that find another value in each call on the same inputs, if the answer depends on it."""
    if answer is None:
        return
    calls = ValueRecorder(), ValueRecorder()
    began = time.monotonic()
    try:
        target.eager.answer(target.call, within_s=_within_s(budget))  # what is set up once is set up now
        for recorder in calls:
            target.eager.answer_again(target.call, within_s=_within_s(budget), world=follow_code(recorder))
        changing = calls[0].find_changing(calls[1])
    except (Exception, TooSlow):  # noqa: BLE001 - submitted code: it does not get through being followed
        return
    within_s = CALL_LIMITS.changed_trace.after(time.monotonic() - began)
    slow = 0
    for value in changing[:_CHANGING_MAX]:
        for change in value.changes():
            if budget.is_spent or slow == _SLOW_MAX:
                budget.leave_out(f"other values of what changes at {value.line.file}:{value.line.line}")
                return
            try:
                differs = _describe_changed_value(target, answer, value, change, within_s)
            except TooSlow:  # it waits for what does not come, or counts up to the value
                slow += 1
                continue
            if differs is not None:
                read = AmbientRead("count", "a value that is another one in each call", value.line)
                between = f"it was {_shorten(value.first)} in one call and {_shorten(value.second)} in the next"
                yield AmbientEffect(read, "harmful", f"{between}; {differs}")
                return  # what is computed from it changes as well


def _describe_changed_value(
    target: Target, answer: CallResult, value: ChangingValue, change: Callable[[Any], Any], within_s: float
) -> str | None:
    """Return how eager's answer differs with another value in the place of one that changes; None if it does not.

    Raises TooSlow after `within_s` seconds.
    """
    changer = ValueChanger(value, change)
    try:
        again = target.eager.answer(target.call, within_s=within_s, world=follow_code(changer))
        differs = target.eager.find_effect(target.call, answer, again, target.tolerance)
    except Exception:  # noqa: BLE001 - submitted code: it refuses this value
        return None
    finally:
        changer.put_back()
    return None if differs is None else f"with {_shorten(changer.given)} in its place, {differs}"


def _describe_other_answer(
    target: Target,
    answer: CallResult,
    world: AbstractContextManager[Any],
    budget: Budget,
    *,
    as_here: bool = False,
) -> str | None:
    """Return how eager's answer in `world` differs; None if it does not.

    With `as_here`, it gets the datatypes of `answer` first.
    """
    again = target.eager.answer(target.call, within_s=_within_s(budget), world=world)
    if as_here:
        dtypes = {path: tensor.dtype for path, tensor in structure.tensors(answer.outputs, "").items()}
        outputs = structure.map_tensors(again.outputs, "", lambda path, one: one.to(dtypes.get(path, one.dtype)))
        again = replace(again, outputs=outputs)
    return target.eager.find_effect(target.call, answer, again, target.tolerance)


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}…"


def _within_s(budget: Budget) -> float:
    """Return how many seconds a call in another world may take, because a loop may not end there."""
    return min(CALL_LIMITS.observed_s, max(CALL_LIMITS.changed_trace.seconds, budget.left_s))


def _describe_other_graph(
    target: Target, baseline: CanonicalGraph, world: AbstractContextManager[Any], budget: Budget
) -> str | None:
    graph = watch_trace(target, ReadRecorder(target.call), within_s=_within_s(budget), world=world)
    divergences = find_divergences(baseline, graph, limit=1)
    return f"a trace has another graph: {describe_divergence(divergences[0])}" if divergences else None


def _compare_while_tracing(
    target: Target,
    answer: CallResult | None,
    contexts: Iterable[ContextRead],
    numbers: Collection[float],
    budget: Budget,
) -> str | None:
    """Return how eager's answer differs if torch says that it traces, on the example or on other values; None if not.

    What is computed for a trace alone may differ on large values only, such as a limit that an export needs, or on the
    `numbers` that the model compares tensors with, such as one that stands for missing data.
    """
    if answer is None or not any(one.name in ASKS_ABOUT_TRACING for one in contexts):
        return None
    named = sorted(numbers, key=abs, reverse=True)[:_NUMBERS_MAX]
    has_floats = any(tensor.is_floating_point() for tensor in target.call.tensors.values())
    changes = [
        *((f"with values {times:g} times as large", partial(_scale, times=times)) for times in _TRACING_SCALES),
        *((f"with values of {number:g}", partial(_put, number=number)) for number in named),
    ]
    for name, change in changes if has_floats else changes[:1]:  # nothing else is changed
        if budget.is_spent:
            budget.leave_out(f"what the model computes while it is traced, {name}")
            continue
        call = target.call.changed(change)
        try:
            compared = _compare_call_while_tracing(target, call, budget)
            # By luck the answer may be exact on these values, and rounding is a difference beside it.
            if compared.differs_by_rounding:
                compared = _compare_call_while_tracing(target, call.changed(partial(_scale, times=_NEAR)), budget)
        except (Exception, TooSlow):  # noqa: BLE001 - submitted code: it believes that it is traced, and is not
            continue
        if not compared.agrees:
            return describe_effect(compared)
    return None


def _scale(tensor: torch.Tensor, times: float) -> torch.Tensor:
    return tensor * times if tensor.is_floating_point() else tensor.clone()


def _put(tensor: torch.Tensor, number: float) -> torch.Tensor:
    """Return the tensor with this number as its first and its last element."""
    changed = tensor.clone(memory_format=torch.contiguous_format)
    if tensor.is_floating_point() and tensor.numel():
        changed.view(-1)[0] = changed.view(-1)[-1] = number
    return changed


def _compare_call_while_tracing(target: Target, call: Call, budget: Budget) -> ComparisonResult:
    within_s = _within_s(budget)
    answer = target.eager.answer(call, within_s=within_s)
    again = target.eager.answer(call, within_s=within_s, world=pretend_tracing())
    return target.eager.compare_changed(call, answer, again, target.tolerance)


def describe_divergence(divergence: GraphDivergence) -> str:
    """Return how the other trace's graph differs from the artifact's, as a clause: `aten::add has 2 in place of 1`."""
    match divergence:
        case GraphDivergence(kind="struct", was=canonical.NOTHING):
            return f"{divergence.is_} is added"
        case GraphDivergence(kind="struct"):
            return f"{divergence.was} is missing"
    return f"{divergence.operator} has {divergence.is_} in place of {divergence.was}"
