"""Flipping reads: what a trace becomes where something else is read out of a tensor, and whether that matters.

The graph is the same: whatever was read, a log line or a check of a shape, the trace keeps nothing of it. It is another
one: the trace took a side, and inputs that take the other are looked for.
"""

import ast
import linecache
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tracehouse.check.flip.answer_search import search_answers
from tracehouse.check.flip.input_search import SearchResult, search_inputs
from tracehouse.check.flip.remedies import suggest_remedy
from tracehouse.check.flip.replacements import propose_neighbours, propose_replacements
from tracehouse.check.graph_diff.canonical import Canonical, GraphDivergence, difference
from tracehouse.check.instrumentation.value_reads import IN_TORCH, ReadRecorder, Replacement, ValueRead
from tracehouse.check.observe import Observation, shown, watched_trace
from tracehouse.check.target import Target
from tracehouse.check.time_limit import TooSlow
from tracehouse.differential.budget import Budget
from tracehouse.eager.call import Call
from tracehouse.findings.trace_check import Effect
from tracehouse.introspection import user_lines
from tracehouse.torchscript.torch_check import Warned

# What is read is an address; what an operator reads, it can often record: such a read is traced on other inputs.
_NOT_CHANGED = ("data_ptr", "__dlpack__", IN_TORCH)
_AGREEING = 2  # of inputs that read another value, so many must agree
_ALONE_MAX = 3  # of several occurrences at one site, so many are changed one at a time
_RAISING = ("_assert", "_check", "_check_value", "_check_index", "_check_type", "_check_is_size", "_assert_async",
            "_assert_tensor_metadata", "torch_compilable_check")  # fmt: skip


@dataclass(frozen=True)
class FlipResult:
    """What became of the trace where a read was changed."""

    divergence: GraphDivergence | None = None
    unchanged: bool = False
    validated: bool = False  # every other value that was tried is refused by the model itself
    raised: str | None = None  # every other value that was tried is refused by an operator


@dataclass(frozen=True)
class ReadEffect:
    """A read, and whether the artifact is wrong by it; with the call that shows it, where one was found."""

    read: ValueRead
    effect: Effect
    reason: str
    divergence: GraphDivergence | None = None
    counterexample: Call | None = None
    confirmed: bool | None = None

    @property
    def line(self) -> user_lines.Line:
        return self.read.line

    @property
    def remedy(self) -> str:
        return suggest_remedy(self.read)


def judge_reads(target: Target, observation: Observation, budget: Budget) -> list[ReadEffect]:
    """Every read that was observed, the costly ones only while there is time."""
    if target.retrace is None:
        return []
    judged = {read.site: _at_once(read, observation) for read in observation.reads}
    waiting = sorted(
        (read for read in observation.reads if judged[read.site] is None), key=lambda read: read.depends_on == "sizes"
    )
    taken: list[tuple[ValueRead, FlipResult]] = []
    for place, read in enumerate(waiting):
        if budget.is_spent:
            budget.leave_out(f"changing what is read at {', '.join(_place(one) for one in waiting[place:])}")
            break
        flipped = flip_read(target, read, observation, budget) if _can_be_flipped(read, observation) else FlipResult()
        judged[read.site] = _by_flip(read, flipped)
        if judged[read.site] is None:
            taken.append((read, flipped))
    others = search_answers(target, [read for read, _ in taken], observation, budget)
    taken += [(read, FlipResult(divergence=divergence)) for read, divergence in others]
    if taken:
        found = search_inputs(target, [read for read, _ in taken], observation.numbers, budget)
        for read, flipped in taken:
            of_read = found[read.site]
            seen = _seen_on_others(target, read, flipped, of_read, observation)
            sides = not seen.divergence or _takes_another_side(target, of_read, observation, budget)
            judged[read.site] = _by_search(read, seen, of_read, both_sides=sides)
    late = "there was no time to try another value"
    reads = [*observation.reads, *(read for read, _ in others if read not in observation.reads)]
    return [judged[read.site] or ReadEffect(read, "unknown", late) for read in reads]


def flip_read(target: Target, read: ValueRead, observation: Observation, budget: Budget) -> FlipResult:
    """The trace with other values in the place of what is read."""
    assert observation.baseline is not None
    unchanged, checked, raised = False, False, None
    for change in _changes(read):
        if budget.is_spent:
            budget.leave_out(f"another changed value at {_place(read)}")
            break
        try:
            graph = _changed_trace(target, change, observation)
        except TooSlow:
            raised = raised or "it did not end"
            continue
        except Exception as error:  # noqa: BLE001 - submitted code: anything may follow from a value that is not there
            checked |= _is_check(error)
            raised = raised if _is_check(error) else f"{type(error).__name__}: {user_lines.shown_text_of(error)[:200]}"
            continue
        parted = difference(observation.baseline, graph, limit=1)
        if parted:
            return FlipResult(divergence=parted[0])
        unchanged = True
    if unchanged:
        return FlipResult(unchanged=True)
    return FlipResult(raised=raised) if raised else FlipResult(validated=checked)


def judge_warning(
    warned: Warned, judged: Sequence[ReadEffect], parted: Sequence[GraphDivergence] = ()
) -> tuple[Effect, str, ReadEffect | None]:
    """Of a TracerWarning, by the reads of its line; `parted` is where a trace on other values was another one."""
    of_line = [one for one in judged if one.line == warned.line]
    worst = min(of_line, key=lambda one: ("harmful", "unknown", "harmless").index(one.effect), default=None)
    if worst is not None and worst.effect == "unknown" and worst.read.depends_on == "sizes":
        return "harmless", "it is a size: what follows from it is kept, and other sizes are outside the contract", worst
    if warned.reads_value and worst is not None:
        return worst.effect, worst.reason, worst
    here = next((one for one in parted if one.line == warned.line), None)
    if here is not None:
        return "harmful", f"traced on other values, {shown(here)}", worst
    match warned.kind:
        case "constant-registered":
            if worst is not None and worst.effect != "harmless":
                return worst.effect, worst.reason, worst
            return "harmless", "the constant is the same in a trace on other values", None
        case "len" | "iterating":
            return "harmless", "it is a size: those that the trace keeps are fixed in the contract", None
        case "container-output":
            return "harmless", "the outputs nest as the contract says, on all inputs that it takes", None
        case "in-place" | "resized":
            return "unknown", "the answers decide: whether what was written shows is seen where they are compared", None
    return (worst.effect, worst.reason, worst) if worst else ("unknown", "no read was seen on this line", None)


def _at_once(read: ValueRead, observation: Observation) -> ReadEffect | None:
    """Of what needs no trace to be judged."""
    if read.depends_on == "constants":
        return ReadEffect(read, "harmless", "what is read does not depend on the inputs")
    if read.site not in observation.recorded and read.depends_on != "values":
        return ReadEffect(read, "harmless", "only Python's own run reads it, and reads no value")
    if observation.baseline is None:
        return ReadEffect(read, "unknown", "the method cannot be traced while it is watched")
    return None


def _by_flip(read: ValueRead, flipped: FlipResult) -> ReadEffect | None:
    """None where inputs that take the other side are to be looked for."""
    if flipped.unchanged:
        return ReadEffect(read, "harmless", "the graph is the same whatever is read here")
    if flipped.validated:
        return ReadEffect(read, "harmless", "it is a check: where another value is read, the model itself raises")
    if read.depends_on != "sizes":
        return None
    if flipped.divergence is None:
        return ReadEffect(read, "harmless", f"the model takes no other size: {flipped.raised or 'it was not tried'}")
    return ReadEffect(read, "unknown", f"the trace keeps what follows from this size: {shown(flipped.divergence)}",
                  divergence=flipped.divergence)  # fmt: skip


def _by_search(read: ValueRead, flipped: FlipResult, found: SearchResult, *, both_sides: bool) -> ReadEffect:
    """`both_sides`: whether one of the inputs that read another value takes another side."""
    if flipped.divergence is not None:
        went = f"where another value is read, the trace is another one: {shown(flipped.divergence)}"
    else:
        went = f"no other value could be put in its place: {flipped.raised}" if flipped.raised else "the trace keeps it"
    if found.counterexample is not None:
        return ReadEffect(read, "harmful", f"the answers differ on inputs that take another side: {found.difference}",
                      flipped.divergence, found.counterexample, confirmed=True)  # fmt: skip
    if flipped.unchanged:
        return ReadEffect(read, "harmless", "traced on inputs that read another value, the graph is the same")
    if both_sides and found.agreed >= _AGREEING and (not found.numeric or found.agreed_values >= _AGREEING):
        return ReadEffect(read, "harmless", "both sides were tried and agree", flipped.divergence)
    few = "those that were found agree, and are too few" if both_sides else "none was found that takes another side"
    reached = (
        f"inputs that read another value: {few}" if found.agreed else "no input was found that reads another value"
    )
    effect: Effect = "harmful" if flipped.divergence is not None else "unknown"
    return ReadEffect(read, effect, f"{went}; {reached}", flipped.divergence)


def _seen_on_others(
    target: Target, read: ValueRead, flipped: FlipResult, found: SearchResult, observation: Observation
) -> FlipResult:
    """Of a read that was not changed: what a trace is on inputs that read another value by themselves."""
    tried = flipped.divergence is not None or flipped.raised is not None
    if tried or found.counterexample is not None or not found.examples or observation.baseline is None:
        return flipped
    if read.may_be_caught or read.site not in observation.recorded:
        return flipped
    try:
        graph = _trace_on(target, found.examples[0], observation)
    except (Exception, TooSlow) as error:  # noqa: BLE001 - submitted code: anything may come out of it
        return FlipResult(raised=type(error).__name__)
    parted = difference(observation.baseline, graph, limit=1)
    return FlipResult(divergence=parted[0]) if parted else FlipResult(unchanged=True)


def _takes_another_side(target: Target, found: SearchResult, observation: Observation, budget: Budget) -> bool:
    """Whether a trace on one of the inputs is another one: a number may lead to the same as the example's."""
    for call in found.examples:
        if budget.is_spent or observation.baseline is None or found.counterexample is not None:
            return False
        try:
            if difference(observation.baseline, _trace_on(target, call, observation), limit=1):
                return True
        except (Exception, TooSlow):  # noqa: BLE001 - submitted code: anything may come out of it
            continue
    return False


def _trace_on(target: Target, call: Call, observation: Observation) -> Canonical:
    return watched_trace(target, ReadRecorder(call, in_torch=observation.in_torch), call, observation.within_s)


def _can_be_flipped(read: ValueRead, observation: Observation) -> bool:
    """Not where the model may catch an error: an operator that raises while it is traced ends the process then."""
    return read.site in observation.recorded and read.site.kind not in _NOT_CHANGED and not read.may_be_caught


def _changed_trace(target: Target, change: Replacement, observation: Observation) -> Canonical:
    reading = ReadRecorder(target.call, change, in_torch=observation.in_torch)
    return watched_trace(target, reading, within_s=observation.within_s)


def _changes(read: ValueRead) -> Iterator[Replacement]:
    if read.site.kind == "__iter__":
        yield Replacement(read.site, lambda rows: rows[:-1] or rows * 2)
        return
    for other in propose_replacements(read):
        yield Replacement(read.site, other)
    if read.times > 1:
        for time in range(min(read.times, _ALONE_MAX)):
            yield Replacement(read.site, next(propose_neighbours(read.values[time])), time=time)


def _is_check(error: BaseException) -> bool:
    """Whether it was raised by an `assert` or a `raise`, or by a function that is there to check, and not by an
    operator that was given what it cannot take."""
    frames = traceback.extract_tb(error.__traceback__)
    for frame in reversed(frames):
        if user_lines.is_ours(frame.filename):
            continue
        if frame.name in _RAISING or (frame.line or "").startswith(("raise ", "assert ")):
            return True
        if user_lines.is_user(frame.filename):
            return any(start <= (frame.lineno or 0) <= end for start, end in _checks_in(frame.filename))
    return False


@lru_cache(maxsize=256)
def _checks_in(file: str) -> list[tuple[int, int]]:
    """The lines of a file that are statements that check."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return []
    return [(node.lineno, node.end_lineno or node.lineno) for node in ast.walk(tree)
            if isinstance(node, ast.Raise | ast.Assert | ast.Call) and _is_to_check(node)]  # fmt: skip


def _is_to_check(node: ast.Raise | ast.Assert | ast.Call) -> bool:
    return not isinstance(node, ast.Call) or ast.unparse(node.func).rpartition(".")[2] in _RAISING


def _place(read: ValueRead) -> str:
    return f"{read.line.file}:{read.line.line}"
