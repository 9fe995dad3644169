"""The check's findings: torch's objects and the layers' results become arguments of the findings' constructors.

The texts are in `tracehouse.findings`; those that quote the line of a value read are in `flip/read_remedies`.
"""

from collections.abc import Sequence

from pydantic import JsonValue

from tracehouse.check.flip import read_remedies
from tracehouse.check.flip.flip import ReadEffect
from tracehouse.check.graph_diff import canonical
from tracehouse.check.graph_diff.canonical import GraphDivergence
from tracehouse.check.graphs.baked_sizes import BakedSize
from tracehouse.check.graphs.baked_values import BakedValue
from tracehouse.check.instrumentation.ambient_reads import AmbientEffect
from tracehouse.check.instrumentation.outside_writes import OutsideWrite
from tracehouse.check.instrumentation.unrecorded_writes import UnrecordedWrite
from tracehouse.check.state_trials import HiddenState
from tracehouse.differential.comparison import Difference
from tracehouse.eager.call import Call
from tracehouse.errors import ModelRaised
from tracehouse.findings import baked, coverage, repeatability, torch_messages
from tracehouse.findings.finding import Effect, Finding
from tracehouse.findings.remedies import KEEP_SIZE_DYNAMIC
from tracehouse.findings.source_lines import (
    ARTIFACT_RAISED,
    GRAPHS_DIFFER,
    INPUTS_CHANGED,
    VALUE_CHANGED,
    name_line,
)
from tracehouse.findings.trace_check import TorchCheck
from tracehouse.introspection import script_graphs, user_lines
from tracehouse.torchscript import torch_check
from tracehouse.torchscript.torch_check import RecordedWarning

_ERROR_MAX_CHARACTERS = 500


def value_read(method: str, read: ReadEffect, mend_also: Sequence[user_lines.Line] = ()) -> Finding:
    """Return the finding of a value read that makes the trace wrong.

    `mend_also` are the lines that must be mended as well before its counterexample is answered rightly.
    """
    evidence: dict[str, JsonValue] = {"read": read.read.site.kind, "divergence": _describe(read.divergence)}
    known_by = VALUE_CHANGED if read.divergence is not None else INPUTS_CHANGED
    evidence |= {"line_known_by": known_by} if read.divergence is not None or read.confirmed else {}
    return baked.value_read(
        method,
        read.reason,
        remedy=read.remedy,
        effect=read.effect,
        confirmed=read.confirmed,
        evidence=evidence,
        line=user_lines.line_facts(read.line),
        mend_also=[name_line(one.file, one.line) for one in mend_also],
    )


def unsettled_value_read(method: str, line: user_lines.Line, reason: str) -> Finding:
    """Return the finding of a value read, if the check could not find out whether it makes the trace wrong."""
    return baked.unsettled_value_read(method, reason, user_lines.line_facts(line))


def value_in_graph(
    method: str, value: BakedValue, line: user_lines.Line | None, candidates: Sequence[user_lines.Line]
) -> Finding:
    """Return the finding of a value in the graph that another trace of the same model lacks.

    Without a line, the `candidates` are shown.
    """
    differing = value.difference.evidence if value.difference is not None else {}
    evidence: dict[str, JsonValue] = {"divergence": _describe(value.divergence), **differing}
    return baked.value_in_graph(
        method,
        "once more on the example" if value.cause == "again" else "on other values",
        operator=value.divergence.operator,
        was=value.divergence.was,
        now=value.divergence.is_,
        confirmed=value.confirmed,
        evidence=evidence | _explain_line(line, GRAPHS_DIFFER, candidates),
        line=user_lines.line_facts(line),
    )


def tracing_flag(method: str, reason: str, line: user_lines.Line) -> Finding:
    """Return the finding that the model computes something else while it is traced."""
    return baked.tracing_flag(method, reason, user_lines.line_facts(line))


def size_kept(method: str, size: BakedSize) -> Finding:
    """Return the finding that the trace keeps sizes of its example."""
    difference = size.counterexample.difference
    what = difference.what if difference else "the artifact raises"
    evidence: dict[str, JsonValue] = {
        "symbols": [*size.symbols],
        "wrong": [dict(sizes) for sizes in size.wrong],
        "right": [dict(sizes) for sizes in size.right],
        "divergence": _describe(size.divergence),
    }
    known_by = ARTIFACT_RAISED if size.divergence is None else GRAPHS_DIFFER
    evidence |= _explain_line(size.line, known_by, ())
    return baked.size_kept(
        method,
        dims=size.dims,
        shapes=size.shapes,
        what=f"{what}{_describe_trace_at_size(size.divergence)}",
        evidence={**evidence, **(difference.evidence if difference else {})},
        remedy=read_remedies.suggest_loop_remedy(size.line) or KEEP_SIZE_DYNAMIC,
        line=user_lines.line_facts(size.line),
        is_tied=size.is_tied,
    )


def keeps_a_size(call: Call, difference: Difference, suspect: user_lines.Line | None) -> Finding:
    """Return the finding that the eager model keeps something of the sizes of its first call."""
    return baked.keeps_a_size(call.method, difference, user_lines.line_facts(suspect))


def dynamic_refused(method: str, symbol: str, dims: str, error: ModelRaised) -> Finding:
    """Return the finding that a size was declared to vary, and the eager model accepts only the example's."""
    return baked.dynamic_refused(method, symbol, dims, error.failure())


def ambient_read(method: str, effect: AmbientEffect) -> Finding:
    """Return the finding that the model reads something outside its inputs."""
    read = effect.read
    line = user_lines.line_facts(read.line)
    return repeatability.ambient_read(
        method, name=read.name, kind=read.kind, effect=effect.effect, reason=effect.reason, line=line
    )


def unrecorded_write(method: str, found: UnrecordedWrite) -> Finding:
    """Return the finding that the model changes or computes something that a trace does not record."""
    return repeatability.unrecorded_write(method, found.what, user_lines.line_facts(found.line))


def outside_write(method: str, found: OutsideWrite) -> Finding:
    """Return the finding that each call changes something outside of the model."""
    return repeatability.outside_write(method, found.what, user_lines.line_facts(found.line))


def layer_failed(layer: str, method: str, error: BaseException) -> Finding:
    """Return the finding that the model's code, or torch, raised where the check did not expect it."""
    text = f"{type(error).__name__}: {user_lines.public_error_text(error)[:_ERROR_MAX_CHARACTERS]}"
    return coverage.layer_failed(layer, method, text, user_lines.line_facts(user_lines.line_of_error(error)))


def tracer_warning(
    warned: RecordedWarning, *, confirmed: bool | None, effect: Effect = "unknown", reason: str | None = None
) -> Finding:
    """Return the finding of one TracerWarning, with its effect."""
    line = user_lines.line_facts(warned.line)
    return torch_messages.tracer_warning(
        warned.method, warned.kind, warned.message, line, confirmed=confirmed, effect=effect, reason=reason
    )


def nondeterministic(call: Call, difference: Difference, drawing: user_lines.Line | None) -> Finding:
    """Return the finding that eager answers differently with other random numbers of Python or NumPy.

    `drawing` is the line that draws.
    """
    return repeatability.nondeterministic(call.method, difference, line=user_lines.line_facts(drawing))


def stochastic(call: Call, difference: Difference, node: script_graphs.Node | None) -> Finding:
    """Return the finding that eager answers differently with other random numbers of torch; `node` draws first."""
    line = user_lines.line_facts(script_graphs.line_of(node) if node else None)
    return repeatability.stochastic(call.method, difference, operator=node.kind() if node else None, line=line)


def draws_random_numbers(method: str, node: script_graphs.Node | None) -> Finding:
    """Return the finding that random numbers were drawn, and no answer has shown it."""
    line = user_lines.line_facts(script_graphs.line_of(node) if node else None)
    return repeatability.draws_random_numbers(method, node.kind() if node else None, line)


def hidden_state(call: Call, difference: Difference, suspect: user_lines.Line | None) -> Finding:
    """Return the finding that eager answers the same inputs differently after other calls."""
    return repeatability.hidden_state(call.method, difference, user_lines.line_facts(suspect))


def later_call_stopped(call: Call, stopped: str, suspect: user_lines.Line | None) -> Finding:
    """Return the finding that a later call of eager on the same inputs had to be stopped."""
    return repeatability.later_call_stopped(call.method, stopped, user_lines.line_facts(suspect))


def generator_kept(method: str, line: user_lines.Line | None) -> Finding:
    """Return the finding that the artifact keeps a torch.Generator."""
    return repeatability.generator_kept(method, user_lines.line_facts(line))


def state_carried(call: Call, states: Sequence[HiddenState]) -> Finding:
    """Return the finding that each call changes state that the next one reads."""
    line = next((one.line for one in states if one.line), None)
    return repeatability.state_carried(call.method, [one.name for one in states], user_lines.line_facts(line))


def torch_check_failed(check: TorchCheck) -> Finding:
    """Return the finding that torch's own check refuses the trace."""
    return torch_messages.torch_check_failed(check, user_lines.line_facts(place_of(check)))


def torch_check_erred(check: TorchCheck) -> Finding:
    """Return the finding that the result of torch's own check is not reliable."""
    return torch_messages.torch_check_erred(check, user_lines.line_facts(place_of(check)))


def place_of(check: TorchCheck) -> user_lines.Line | None:
    """Return the line of the first node with a known line that torch's check names; None if there is none."""
    diverging = [check.first_diverging.trace] if check.first_diverging else []
    named = [*diverging, *(constant.node for constant in check.constants), *check.nondeterministic]
    places = [(node.file, node.line, node.source) for node in named]
    lines = (
        user_lines.Line(file=file, line=line, source=source or "") for file, line, source in places if file and line
    )
    return next(lines, None) or torch_check.line_of_divergence(check.graph_diff or "")


def _describe_trace_at_size(divergence: GraphDivergence | None) -> str:
    """Return how a trace at that size differs from the artifact, as the rest of a sentence."""
    match divergence:
        case None:
            return ""
        case GraphDivergence(kind="struct", was=canonical.NOTHING):
            return f"; a trace at that size has more steps, the first of them {divergence.is_}"
        case GraphDivergence(kind="struct"):
            return f"; a trace at that size has fewer steps, and lacks {divergence.was}"
        case GraphDivergence(kind="const"):
            there, here = divergence.is_, divergence.was
            return f"; a trace at that size has {there} in place of {here} in {divergence.operator}"
    return f"; a trace at that size passes other values to {divergence.operator}"


def _explain_line(
    line: user_lines.Line | None, known_by: str, candidates: Sequence[user_lines.Line]
) -> dict[str, JsonValue]:
    """Return how a line is known or, without one, the lines that may be at fault."""
    if line is None:
        return {"candidates": [name_line(one.file, one.line) for one in candidates]}
    return {"line_known_by": known_by}


def _describe(divergence: GraphDivergence | None) -> dict[str, JsonValue] | None:
    if divergence is None:
        return None
    return {"kind": divergence.kind, "operator": divergence.operator, "was": divergence.was, "is": divergence.is_}
