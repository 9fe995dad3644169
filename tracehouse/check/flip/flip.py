"""Flip: it replaces each value that Python reads out of a tensor, and traces the model again.

If the graph stays the same, the trace keeps nothing of the value: the model read it for a log line, say, or for a
check. If the graph changes, the trace took one side of a branch, and the layer searches for inputs that take the other
side. The idea resembles mutation testing (DeMillo, Lipton and Sayward, 1978), with a changed value in place of a
changed statement.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import combinations

from tracehouse.check.flip.answer_search import AnswerSearchResult, ChangedAnswer, search_answers, search_eager_answers
from tracehouse.check.flip.input_search import SearchResult, search_inputs
from tracehouse.check.flip.read_remedies import suggest_remedy
from tracehouse.check.flip.replacements import propose_neighbours, propose_replacements
from tracehouse.check.graph_diff.canonical import CanonicalGraph, GraphDivergence, find_divergences
from tracehouse.check.instrumentation.model_checks import is_check
from tracehouse.check.instrumentation.value_reads import (
    IN_TORCH,
    MEMORY_METHODS,
    ReadRecorder,
    ReadSite,
    Replacement,
    ValueRead,
)
from tracehouse.check.observe import Observation, describe_divergence, watch_trace
from tracehouse.check.target import Target
from tracehouse.check.time_limit import TooSlow
from tracehouse.differential.budget import Budget
from tracehouse.eager.call import Call
from tracehouse.findings.finding import Effect
from tracehouse.introspection import user_lines
from tracehouse.torchscript.torch_check import RecordedWarning

# Reads whose value is not replaced: it is an address, or the tracer can often record the operator that reads it.
# Instead, the model is traced on inputs that give another value there.
NOT_FLIPPED = ("data_ptr", "__dlpack__", IN_TORCH)
# One agreeing input can agree by chance, as x * 2 and x * x do at 2. So the answers must agree on so many inputs that
# read another value.
_AGREEING_MIN = 2
_ALONE_MAX = 3  # if a site is read several times, so many of the reads are also flipped alone; a choice
_TOO_LONG = "the trace took too long"
_SHORT_OF_TIME = (
    "the check ran out of time before everything was tried, and a new one, on a less busy machine or with a larger "
    "budget_s, may find the line harmless"
)
_TRUTHS_MAX = 5  # if a site reads so many truths, they are also flipped in all combinations; a choice


@dataclass(frozen=True)
class FlipResult:
    """What replacing the value of one read did to the trace."""

    divergence: GraphDivergence | None = None  # the first difference of the graphs, if they differ
    is_unchanged: bool = False
    is_checked: bool = False  # the model's own check refused each other value that was tried
    raised: str | None = None  # how an operator failed on each other value that was tried
    other_answer: str | None = None  # how the eager model answers if Python gets another answer about the value
    is_answered_alone: bool = False  # it got another answer about no other read


@dataclass(frozen=True)
class ReadEffect:
    """A read, and whether the artifact answers wrongly because of it, with the reason.

    `divergence` is the first difference that another value makes in the graph. `counterexample` is a call that the
    artifact answers wrongly, and `confirmed` is true if one was found.
    """

    read: ValueRead
    effect: Effect
    reason: str
    divergence: GraphDivergence | None = None
    counterexample: Call | None = None
    confirmed: bool | None = None

    @property
    def line(self) -> user_lines.Line:
        """The line that reads."""
        return self.read.line

    @property
    def remedy(self) -> str:
        """What to write instead of the read."""
        return suggest_remedy(self.read)


def judge_reads(target: Target, observation: Observation, budget: Budget) -> list[ReadEffect]:
    """Return every observed read with its effect; none if the artifact was not traced.

    Reads for which the budget leaves no time have the effect "unknown". Raises LimitExceeded if the artifact runs out
    of memory.
    """
    if target.retrace is None:
        return []
    effects = {read.site: _judge_untraced(read, observation) for read in observation.reads}
    open_reads = _flip_reads(target, observation, effects, budget)
    found = _search_answers(target, [read for read, _ in open_reads], observation, budget)
    changed = {one.read.site: one for one in found.changed}
    alone = len(changed) == 1
    open_reads = [
        (read, _with_answer(flipped, changed.pop(read.site, None), alone=alone)) for read, flipped in open_reads
    ]
    open_reads += [(one.read, FlipResult(divergence=one.divergence)) for one in changed.values()]
    effects |= _search_reads(target, open_reads, observation, budget)
    late = "there was no time to try another value"
    seen = {read.site for read in observation.reads}
    reads = [*observation.reads, *(one.read for one in changed.values() if one.read.site not in seen)]
    judged = [effects[read.site] or ReadEffect(read, "unknown", late) for read in reads]
    doubted = [_doubt(one, found.lost) for one in judged]
    if not (budget.is_cut or budget.is_spent or observation.is_cut):
        return doubted
    return [_note_short_time(one) for one in doubted]


def _search_answers(
    target: Target, open_reads: Sequence[ValueRead], observation: Observation, budget: Budget
) -> AnswerSearchResult:
    """Search for answers that matter: of the reads that were flipped in traces, and of those whose errors may be caught
    in the eager model."""
    aside = [read for read in open_reads if read.site.kind not in (*MEMORY_METHODS, IN_TORCH)]
    found = search_answers(target, aside, observation, budget)
    caught = [read for read in open_reads if read.may_be_caught and read.depends_on == "values"]
    if not caught or observation.answer is None:
        return found
    eager = search_eager_answers(target, caught, observation, budget)
    return AnswerSearchResult([*found.changed, *eager.changed], found.lost | eager.lost)


def _with_answer(flipped: FlipResult, changed: ChangedAnswer | None, *, alone: bool) -> FlipResult:
    if changed is None:
        return flipped
    divergence = flipped.divergence or changed.divergence
    return replace(flipped, divergence=divergence, other_answer=changed.difference, is_answered_alone=alone)


def _doubt(judged: ReadEffect, lost: Mapping[ReadSite, str]) -> ReadEffect:
    """Return the effect of a read as unknown if it could not be followed to the end and seemed harmless."""
    if judged.effect != "harmless" or judged.read.site not in lost:
        return judged
    return replace(judged, effect="unknown", reason=f"what follows from it is unknown: {lost[judged.read.site]}")


def _note_short_time(judged: ReadEffect) -> ReadEffect:
    """Return the effect of a read with the reason that more time may help, where nothing is known for sure."""
    if judged.effect == "harmless" or judged.confirmed or judged.read.depends_on != "values":
        return judged
    return replace(judged, reason=f"{judged.reason}; {_SHORT_OF_TIME}")


def flip_read(target: Target, read: ValueRead, observation: Observation, budget: Budget) -> FlipResult:
    """Return what other values in place of the one that was read do to the trace.

    The observation must have a baseline. The first value that changes the graph decides. Values for which the budget
    leaves no time are left out.
    """
    assert observation.baseline is not None
    is_unchanged, is_checked, raised = False, False, None
    for replacement in make_replacements(read):
        if budget.is_spent:
            budget.leave_out(f"more values in place of the one read at {_describe_place(read)} were not tried")
            break
        try:
            graph = _trace_flipped(target, replacement, observation)
        except TooSlow:
            raised = raised or _TOO_LONG
            continue
        except Exception as error:  # noqa: BLE001 - submitted code: anything may follow from a value that is not there
            if is_check(error):
                is_checked = True
                _let_refuse(target, replacement, observation)
            else:
                raised = f"{type(error).__name__}: {user_lines.public_error_text(error)[:200]}"
            continue
        divergences = find_divergences(observation.baseline, graph, limit=1)
        if divergences:
            return FlipResult(divergence=divergences[0])
        is_unchanged = True
    if is_unchanged:
        return FlipResult(is_unchanged=True)
    if raised == _TOO_LONG:
        budget.leave_out(f"what another value does at {_describe_place(read)}: {_TOO_LONG}")
    return FlipResult(raised=raised) if raised else FlipResult(is_checked=is_checked)


def make_replacements(read: ValueRead) -> Iterator[Replacement]:
    """Yield other values in place of the one that was read: each time that it is read, and at single times."""
    if read.site.kind == "__iter__":
        yield Replacement(read.site, lambda rows: rows[:-1] or rows * 2)
        return
    for change in propose_replacements(read):
        yield Replacement(read.site, change)
    if read.times > 1:
        for time in range(min(read.times, _ALONE_MAX)):
            yield Replacement(read.site, next(propose_neighbours(read.values[time])), {time})
    if 2 < read.times <= _TRUTHS_MAX and all(type(value) is bool for value in read.values):
        for count in range(2, read.times):  # one of them alone may decide nothing
            for places in combinations(range(read.times), count):
                yield Replacement(read.site, lambda truth: not truth, places)


def judge_warning(
    warned: RecordedWarning, effects: Sequence[ReadEffect], divergences: Sequence[GraphDivergence] = ()
) -> tuple[Effect, str, ReadEffect | None]:
    """Return the effect of a TracerWarning, the reason, and the read of its line that decided it.

    `divergences` are the differences between the trace and traces on other values.
    """
    of_line = [one for one in effects if one.line == warned.line]
    worst = min(of_line, key=lambda one: ("harmful", "unknown", "harmless").index(one.effect), default=None)
    if worst is not None and worst.effect == "unknown" and worst.read.depends_on == "sizes":
        return (
            "harmless",
            "the line reads a size: the trace keeps what follows from it, and other sizes break the contract",
            worst,
        )
    if worst is not None and (warned.reads_value or worst.effect == "harmful"):
        return worst.effect, worst.reason, worst
    divergence = next((one for one in divergences if one.line == warned.line), None)
    if divergence is not None:
        return "harmful", f"in a trace on other values, {describe_divergence(divergence)}", worst
    match warned.kind:
        case "constant-registered":
            if worst is not None and worst.effect != "harmless":
                return worst.effect, worst.reason, worst
            return "harmless", "the constant is the same in a trace on other values", None
        case "len" | "iterating":
            return "harmless", "the line reads a size, and the contract fixes the sizes that the trace keeps", None
        case "container-output":
            return "harmless", "the outputs nest as the contract says on all inputs that the contract accepts", None
        case "in-place" | "resized":
            return "unknown", "comparing answers decides whether what the line writes matters", None
    return (worst.effect, worst.reason, worst) if worst else ("unknown", "the check saw no read on this line", None)


def _flip_reads(
    target: Target, observation: Observation, effects: dict[ReadSite, ReadEffect | None], budget: Budget
) -> list[tuple[ValueRead, FlipResult]]:
    """Flip the reads that have no effect yet, reads of sizes last, and enter the effects that this decides.

    Return the reads that stay open. For these, inputs that take the other side must be searched for.
    """
    waiting = sorted(
        (read for read in observation.reads if effects[read.site] is None), key=lambda read: read.depends_on == "sizes"
    )
    open_reads: list[tuple[ValueRead, FlipResult]] = []
    for place, read in enumerate(waiting):
        if budget.is_spent:
            budget.leave_out(
                f"no other value was tried at {', '.join(_describe_place(one) for one in waiting[place:])}"
            )
            break
        result = flip_read(target, read, observation, budget) if _can_be_flipped(read, observation) else FlipResult()
        effects[read.site] = _judge_flip(read, result)
        if effects[read.site] is None:
            open_reads.append((read, result))
    return open_reads


def _search_reads(
    target: Target, open_reads: Sequence[tuple[ValueRead, FlipResult]], observation: Observation, budget: Budget
) -> dict[ReadSite, ReadEffect]:
    """Search for inputs on which these reads give other values, and judge each read by the answers there."""
    if not open_reads:
        return {}
    effects = {}
    results = search_inputs(target, [read for read, _ in open_reads], observation.numbers, budget)
    for read, before in open_reads:
        result = results[read.site]
        flipped = _flip_by_inputs(target, read, before, result, observation)
        # The other answer about a boolean is its other value, which these inputs have.
        is_tried = not flipped.other_answer or (flipped.is_answered_alone and not result.numeric)
        both_sides = is_tried and (not flipped.divergence or _has_other_side(target, result, observation, budget))
        effects[read.site] = _judge_search(read, flipped, result, both_sides=both_sides)
    return effects


def _judge_untraced(read: ValueRead, observation: Observation) -> ReadEffect | None:
    """Return the effect of a read that can be judged without a trace; None for any other."""
    if read.depends_on == "constants":
        return ReadEffect(read, "harmless", "what is read does not depend on the inputs")
    if read.site not in observation.recorded and read.depends_on != "values":
        return ReadEffect(read, "harmless", "the eager model reads a size here, and a trace reads nothing")
    if observation.baseline is None:
        return ReadEffect(read, "unknown", "the method cannot be traced while the check records its reads")
    return None


def _judge_flip(read: ValueRead, flipped: FlipResult) -> ReadEffect | None:
    """Return the effect of a read that was flipped; None if only inputs on the other side can tell."""
    if flipped.is_unchanged:
        return ReadEffect(read, "harmless", "the graph is the same whatever is read here")
    if flipped.is_checked:
        return ReadEffect(read, "harmless", "the line is a check: the model itself raises if another value is read")
    if read.depends_on != "sizes":
        return None
    if flipped.divergence is None:
        return ReadEffect(read, "harmless", f"the model accepts no other size: {flipped.raised or 'none was tried'}")
    reason = (
        f"the trace keeps what follows from this size; with another size, {describe_divergence(flipped.divergence)}"
    )
    return ReadEffect(read, "unknown", reason, divergence=flipped.divergence)


def _judge_search(read: ValueRead, flipped: FlipResult, result: SearchResult, *, both_sides: bool) -> ReadEffect:
    """Return the effect of a read by the answers on inputs that read another value.

    `both_sides` says whether some of these inputs also take another side of the branch.
    """
    if flipped.divergence is not None:
        went = f"another value gives another graph: {describe_divergence(flipped.divergence)}"
    elif flipped.other_answer is not None:
        went = f"if Python gets another answer about the value, {flipped.other_answer}"
    else:
        went = f"no other value could be tried: {flipped.raised}" if flipped.raised else "the trace keeps the value"
    if result.counterexample is not None:
        return ReadEffect(read, "harmful", f"the answers differ on inputs that take another side: {result.difference}",
                      flipped.divergence, result.counterexample, confirmed=True)  # fmt: skip
    if flipped.is_unchanged:
        return ReadEffect(read, "harmless", "a trace on inputs that read another value has the same graph")
    if both_sides and result.agreed >= _AGREEING_MIN and (not result.numeric or result.agreed_values >= _AGREEING_MIN):
        return ReadEffect(
            read, "harmless", "both sides of the branch were tried, and the answers agree", flipped.divergence
        )
    if not read.in_eager:
        reached = "the eager model has a number there, so that no call shows what follows from another one"
    elif not result.agreed:
        reached = "no input was found that reads another value"
    elif both_sides:
        reached = "the answers agree on the inputs that read another value, but these are too few"
    else:
        reached = "no input was found that takes another side of the branch"
    matters = flipped.divergence is not None or flipped.other_answer is not None
    effect: Effect = "harmful" if matters else "unknown"
    return ReadEffect(read, effect, f"{went}; {reached}", flipped.divergence)


def _flip_by_inputs(
    target: Target, read: ValueRead, flipped: FlipResult, result: SearchResult, observation: Observation
) -> FlipResult:
    """Return `flipped` or, if the read could not be flipped, what a trace on an input with another value shows."""
    was_flipped = flipped.divergence is not None or flipped.raised is not None
    if was_flipped or result.counterexample is not None or not result.examples or observation.baseline is None:
        return flipped
    if read.may_be_caught or read.site not in observation.recorded:
        return flipped
    try:
        graph = _trace_on(target, result.examples[0], observation)
    except (Exception, TooSlow) as error:  # noqa: BLE001 - submitted code: anything may come out of it
        return FlipResult(raised=type(error).__name__)
    divergences = find_divergences(observation.baseline, graph, limit=1)
    return FlipResult(divergence=divergences[0]) if divergences else FlipResult(is_unchanged=True)


def _has_other_side(target: Target, result: SearchResult, observation: Observation, budget: Budget) -> bool:
    """Whether a trace on one of the inputs has another graph. Another number may lead to the same side of a branch."""
    for call in result.examples:
        if budget.is_spent or observation.baseline is None or result.counterexample is not None:
            return False
        try:
            if find_divergences(observation.baseline, _trace_on(target, call, observation), limit=1):
                return True
        except (Exception, TooSlow):  # noqa: BLE001 - submitted code: anything may come out of it
            continue
    return False


def _trace_on(target: Target, call: Call, observation: Observation) -> CanonicalGraph:
    return watch_trace(target, ReadRecorder(call, in_torch=observation.in_torch), call, observation.retrace_s)


def _can_be_flipped(read: ValueRead, observation: Observation) -> bool:
    """Whether the read's value can be replaced.

    It can't if the model may catch an error, because an operator that raises while it is traced then ends the process.
    """
    return read.site in observation.recorded and read.site.kind not in NOT_FLIPPED and not read.may_be_caught


def _trace_flipped(target: Target, replacement: Replacement, observation: Observation) -> CanonicalGraph:
    recorder = ReadRecorder(target.call, replacement, in_torch=observation.in_torch)
    return watch_trace(target, recorder, within_s=observation.retrace_s)


def _let_refuse(target: Target, replacement: Replacement, observation: Observation) -> None:
    """Have the eager model refuse its example for this value as well: the oracle asks what such a call leaves."""
    if target.eager.refusals.are_looked_at:
        world = ReadRecorder(target.call, replacement, in_torch=observation.in_torch)
        with suppress(Exception, TooSlow):
            target.eager.answer(target.call, within_s=target.single_s, world=world)


def _describe_place(read: ValueRead) -> str:
    return f"{read.line.file}:{read.line.line}"
