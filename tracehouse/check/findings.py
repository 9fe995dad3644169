"""Findings: what the check saw, each with its kind, its line where one is known, and what to write instead."""

from collections.abc import Sequence
from typing import Any

from pydantic import JsonValue

from tracehouse.check.claim import Tried
from tracehouse.check.flip import remedies
from tracehouse.check.flip.flip import ReadEffect
from tracehouse.check.graph_diff import canonical
from tracehouse.check.graph_diff.canonical import GraphDivergence
from tracehouse.check.graphs.baked_sizes import BakedSize
from tracehouse.check.graphs.baked_values import BakedValue
from tracehouse.check.instrumentation.ambient_reads import AmbientEffect
from tracehouse.check.state_trials import HiddenState
from tracehouse.contract.dims import format_sizes
from tracehouse.contract.regions import Region
from tracehouse.differential.comparison import Difference
from tracehouse.eager.call import Call
from tracehouse.errors import ModelRaised
from tracehouse.findings.kinds import Kind
from tracehouse.findings.remedies import (
    CONTROL_RANDOMNESS,
    FIND_THE_CAUSE,
    FIX_CHECK_INPUT,
    KEEP_SIZE_DYNAMIC,
    LIST_BUCKETS,
    PASS_STATE,
    REPLACE_VALUE_READ,
)
from tracehouse.findings.trace_check import Effect, Finding, TorchCheck
from tracehouse.introspection import script_graphs, user_lines
from tracehouse.spec.trace_spec import CheckOptions, TraceOptions, TraceSpec
from tracehouse.torchscript import torch_check
from tracehouse.torchscript.torch_check import Warned

# By the kind of the tracer's warning.
_REMEDIES = {
    "tensor-to-python-boolean": "choose by torch.where, put the branch into a torch.jit.script function, or let "
    "`mode` be auto, which does so where a trace is wrong",
    "tensor-to-python-integer": "keep it a tensor; read a size where it is used, as x.shape[0]; or let `mode` be auto",
    "tensor-to-python-float": "keep it a tensor, and compute with torch",
    "tensor-to-python-complex": "keep it a tensor, and compute with torch",
    "tensor-to-python-number": "keep it a tensor, and compute with torch",
    "tensor-to-python-index": "index with the tensor itself",
    "tensor-to-python-list": "keep it a tensor",
    "tensor-to-numpy": "compute with torch instead of numpy",
    "iterating": "compute on the whole tensor, put the loop into a torch.jit.script function, or let `mode` be auto, "
    "which does so where a trace is wrong",
    "len": "use x.shape[0]",
    "constant-registered": "make the tensor in __init__ as a buffer, or from the inputs with torch operators",
    "in-place": "write into a tensor that forward made itself, or use the operator that is not in place",
    "resized": "use view or reshape",
}

RENEW_WHAT_IS_KEPT = (
    "make it anew where the sizes are others than those that it was made for, or make it in __init__ for the largest"
)
SETTLE_VALUE_READ = (
    "compute it with torch operations (torch.where, masks); or give check inputs that take the other side; or raise "
    "check.budget_s"
)
# Options that torch.jit.script does not take.
_OF_A_TRACE = ("strict", "force_outplace", "store_inputs")

_DID_YOU_FORGET = (
    "torch asks: did you forget to call .eval() on your model? Let `training` be false, or leave randomness out of "
    "what forward computes in eval mode"
)


def baked_read(method: str, judged: ReadEffect) -> Finding:
    """A value of the inputs was read in Python, and the trace is wrong where another one would be read."""
    return Finding(
        kind=Kind.BAKED_VALUE,
        detail=f"{method} reads a value out of a tensor here, and the trace keeps what followed on the example: "
        f"{judged.reason}",
        confirmed=judged.confirmed,
        evidence={"method": method, "read": judged.read.site.kind, "parting": _shown(judged.divergence)},
        remedy=judged.remedy,
        effect=judged.effect,
        reason=judged.reason,
        **user_lines.where(judged.line),
    )


def unsettled_read(method: str, line: user_lines.Line, why: str) -> Finding:
    """Whoever asks the artifact could get a wrong answer, and nobody has seen one: it counts as if one had been."""
    return Finding(
        kind=Kind.BAKED_VALUE,
        detail=f"{method} reads a value out of a tensor here, and it is not known whether the trace is right where "
        f"another one is read: {why}",
        confirmed=False,
        evidence={"method": method},
        remedy=SETTLE_VALUE_READ,
        effect="unknown",
        reason=why,
        **user_lines.where(line),
    )


def baked_value(method: str, baked: BakedValue) -> Finding:
    """A trace of the same model on other values, or on the same ones again, is another one."""
    on = "once more on the example" if baked.cause == "again" else "on other values"
    parting = baked.parting
    return Finding(
        kind=Kind.BAKED_VALUE,
        detail=f"{method}, traced {on}, has another graph: {parting.operator} has {parting.was} in the artifact, and "
        f"{parting.is_} there",
        confirmed=baked.confirmed,
        evidence={
            "method": method,
            "parting": _shown(parting),
            **(baked.difference.evidence if baked.difference is not None else {}),
        },
        remedy=FIND_THE_CAUSE,
        effect="harmful",
        reason=f"the graph of a trace {on} is another one",
        **user_lines.where(baked.line),
    )


def baked_size(method: str, baked: BakedSize) -> Finding:
    """Eager answers other sizes, and the artifact otherwise or not at all."""
    parting = baked.parting
    shown = baked.shown
    what = shown.difference.what if shown.difference else "the artifact raises"
    return Finding(
        kind=Kind.BAKED_SIZE,
        detail=f"{method} keeps {baked.dims} as it was on the example: with {baked.shapes}, {what}{_told_of(parting)}",
        confirmed=True,
        evidence={
            "method": method,
            "symbols": list(baked.symbols),
            "wrong": [dict(sizes) for sizes in baked.wrong],
            "right": [dict(sizes) for sizes in baked.right],
            "parting": _shown(parting),
            **(shown.difference.evidence if shown.difference else {}),
        },
        remedy=remedies.suggest_loop_remedy(baked.line, LIST_BUCKETS) or KEEP_SIZE_DYNAMIC,
        effect="harmful",
        reason="the answers differ at another size",
        **user_lines.where(baked.line),
    )


def dynamic_refused(method: str, symbol: str, dims: str, error: ModelRaised) -> Finding:
    """It was declared that a size varies, and the eager model takes the example's alone."""
    return Finding(
        kind=Kind.DYNAMIC_REFUSED,
        detail=f"{method}: {dims} was declared to vary as {symbol}, and the model refuses each other size that was "
        f"tried, so that the contract has the example's alone: {error.detail}",
        confirmed=True,
        evidence={"method": method, "symbol": symbol, "exception": error.facts.get("exception")},
        remedy=f"leave {symbol} out of `dynamic`, declare what varies together with it, or let the model take other "
        "sizes",
        file=error.facts.get("file"),
        line=error.facts.get("line"),
        source=error.facts.get("source"),
    )


def _told_of(parting: GraphDivergence | None) -> str:
    """How a trace at that size differs from the artifact."""
    match parting:
        case None:
            return ""
        case GraphDivergence(kind="struct", was=canonical.NOTHING):
            return f"; a trace there has more steps, {parting.is_} the first of them"
        case GraphDivergence(kind="struct"):
            return f"; a trace there has fewer steps, and not this {parting.was}"
        case GraphDivergence(kind="const"):
            return f"; a trace there has {parting.is_} in the place of {parting.was} in {parting.operator}"
    return f"; a trace there hands other values to {parting.operator}"


def layout_differs(call: Call, name: str, difference: Difference) -> Finding:
    """Eager and artifact differ on the example's own values, laid out otherwise in memory."""
    return Finding(
        kind=Kind.LAYOUT_DIFFERS,
        detail=f"{call.method} on {name}: {difference.leaf!r} differs: {difference.what}",
        confirmed=True,
        evidence={"method": call.method, "case": name, **difference.evidence},
        remedy="hand the archive contiguous tensors that require no gradient, as the service does",
    )


def told_of_tracing(method: str, how: str, line: user_lines.Line) -> Finding:
    """The model asks whether it is traced, and computes something else then."""
    return Finding(
        kind=Kind.BAKED_VALUE,
        detail=f"{method} asks here whether it is being traced, and computes something else then: {how}",
        confirmed=True,
        evidence={"method": method},
        remedy="let forward compute the same whether it is traced or not",
        effect="harmful",
        reason=how,
        **user_lines.where(line),
    )


def ambient_read(method: str, judged: AmbientEffect) -> Finding:
    """Something outside the inputs reaches the answer."""
    return Finding(
        kind=Kind.AMBIENT_READ if judged.effect == "harmful" else Kind.AMBIENT_READ_SEEN,
        detail=f"{method} asks for {judged.read.name} here: {judged.reason}",
        confirmed=True if judged.effect == "harmful" else None,
        evidence={"method": method, "kind": judged.read.kind, "name": judged.read.name},
        remedy="make what is read an input of forward, or read it once in __init__",
        effect=judged.effect,
        reason=judged.reason,
        **user_lines.where(judged.read.line),
    )


def proof_void(method: str, region: Region, tried: Tried) -> Finding:
    """A call contradicts what was proven, of which nothing is claimed then."""
    return Finding(
        kind=Kind.PROOF_VOID,
        detail=f"{method}: the sizes {region} seemed proven, and a call with {format_sizes(tried.sizes)} differs",
        confirmed=True,
        evidence={"method": method, "region": str(region), "sizes": dict(tried.sizes)},
    )


def layer_failed(layer: str, method: str, error: BaseException) -> Finding:
    """The model's code, or torch, raised where the check did not expect it."""
    return Finding(
        kind=Kind.LAYER_FAILED,
        detail=f"the check's layer {layer!r} of {method} broke off, and what it would have found is not known: "
        f"{type(error).__name__}: {user_lines.shown_text_of(error)[:500]}",
        evidence={"method": method, "layer": layer},
        **user_lines.where(user_lines.of_error(error)),
    )


def tracer_warning(
    warned: Warned, *, confirmed: bool | None, effect: Effect = "unknown", reason: str | None = None
) -> Finding:
    """What the tracer could not record, and whether it matters."""
    message = warned.message.strip()
    if warned.reads_value:
        message = (
            "a value was read out of a tensor here, and is baked in as it was on the example, with all that "
            f"follows from it; torch says: {message}"
        )
    return Finding(
        kind=Kind.TRACER_WARNING,
        detail=message,
        confirmed=confirmed,
        evidence={"method": warned.method, "kind": warned.kind},
        remedy=None if effect == "harmless" else _REMEDIES.get(warned.kind),
        effect=effect,
        reason=reason,
        **user_lines.where(warned.line),
    )


def differs(
    call: Call,
    case: str,
    difference: Difference,
    warnings: Sequence[Warned],
    *,
    in_contract: bool,
    suspect: user_lines.Line | None,
) -> Finding:
    """Eager and artifact answer differently."""
    where = "" if in_contract else ", on inputs that the contract leaves out"
    read = suspect is not None and any(warned.line == suspect and warned.reads_value for warned in warnings)
    return Finding(
        kind=Kind.OUTPUT_DIFFERS if in_contract else Kind.OUTPUT_DIFFERS_ELSEWHERE,
        detail=f"{call.method} on {case}: {difference.leaf!r} differs{where}: {difference.what}",
        confirmed=True,
        evidence={
            "method": call.method,
            "case": case,
            "inputs": list(call.tensors),
            "output": difference.leaf,
            **difference.evidence,
        },
        remedy=REPLACE_VALUE_READ if read else FIND_THE_CAUSE,
        **user_lines.where(suspect),
    )


def nondeterministic(call: Call, difference: Difference, graph: Any, drawing: user_lines.Line | None) -> Finding:
    """Eager answers otherwise when it draws other random numbers; `drawing` is the line of what no graph shows."""
    node = next((node for node in script_graphs.nodes(graph) if node.isNondeterministic()), None)
    return Finding(
        kind=Kind.NONDETERMINISTIC,
        detail=f"{call.method} draws random numbers, and answers differently each time: {difference.what}",
        confirmed=True,
        evidence={"method": call.method, "output": difference.leaf, "operator": node.kind() if node else None},
        remedy=CONTROL_RANDOMNESS,
        **user_lines.where(script_graphs.line_of(node) if node else drawing),
    )


def draws(method: str, node: script_graphs.Node | None) -> Finding:
    """Random numbers were drawn, and no answer has shown it."""
    return Finding(
        kind=Kind.DRAWS_RANDOM_NUMBERS,
        detail=f"{method} draws random numbers: no two answers were seen to differ by them, and others may",
        evidence={"method": method, "operator": node.kind() if node else None},
        remedy=CONTROL_RANDOMNESS,
        **user_lines.where(script_graphs.line_of(node) if node else None),
    )


def hidden_state(call: Call, difference: Difference, suspect: user_lines.Line | None) -> Finding:
    """Eager answers otherwise when it is asked again."""
    return Finding(
        kind=Kind.HIDDEN_STATE,
        detail=f"{call.method} answers the same inputs differently after another call: {difference.what}",
        confirmed=True,
        evidence={
            "method": call.method,
            "output": difference.leaf,
            "first": difference.eager,
            "second": difference.artifact,
        },
        remedy=PASS_STATE,
        **user_lines.where(suspect),
    )


def keeps_a_size(call: Call, difference: Difference, suspect: user_lines.Line | None) -> Finding:
    """Eager answers otherwise once it was asked at other sizes: which of its answers is meant cannot be said."""
    return Finding(
        kind=Kind.KEEPS_A_SIZE,
        detail=f"{call.method} keeps something of the sizes that it was first called with, and the contract takes no "
        f"others than the example's: {difference.what}",
        confirmed=True,
        evidence={
            "method": call.method,
            "output": difference.leaf,
            "first": difference.eager,
            "second": difference.artifact,
        },
        remedy=RENEW_WHAT_IS_KEPT,
        **user_lines.where(suspect),
    )


def carries_state(call: Call, carried: Sequence[HiddenState]) -> Finding:
    """Each call changes something that the next one reads, though no answer has shown it yet."""
    names = [one.name for one in carried]
    return Finding(
        kind=Kind.HIDDEN_STATE,
        detail=f"each call of {call.method} changes {', '.join(names)}, which the next call reads: "
        "it was not seen in an answer, and may show in a later one",
        evidence={"method": call.method, "state": names},
        remedy=PASS_STATE,
        **user_lines.where(next((one.line for one in carried if one.line), None)),
    )


def changes_input(call: Call, names: Sequence[str]) -> Finding:
    """It writes into its inputs, as does the artifact."""
    return Finding(
        kind=Kind.CHANGES_ITS_INPUT,
        detail=f"{call.method} writes into {', '.join(names)}, as the artifact does; a reply does not show it",
        confirmed=True,
        evidence={"method": call.method, "inputs": list(names)},
    )


def refused_check_input(case: str, error: ModelRaised) -> Finding:
    """The eager model itself refuses a check input, which then says nothing of the trace."""
    facts = error.facts
    return Finding(
        kind=Kind.CHECK_INPUT_REFUSED,
        detail=f"{case}: {error.detail}",
        evidence={"case": case, "exception": facts.get("exception")},
        remedy=FIX_CHECK_INPUT,
        file=facts.get("file"),
        line=facts.get("line"),
        source=facts.get("source"),
    )


def probes_left_out(names: Sequence[str], why: str) -> Finding:
    """What the check did not try."""
    return Finding(
        kind=Kind.PROBES_LEFT_OUT, detail=f"{why}; not tried: {', '.join(names)}", evidence={"probes": list(names)}
    )


def deprecated_options(options: TraceOptions) -> list[Finding]:
    """Of those that are given, the ones that torch takes and ignores."""
    return [
        Finding(
            kind=Kind.DEPRECATED_OPTION,
            detail=f"options.{name} was given: torch.jit ignores it, says that it is deprecated, and will drop it",
            confirmed=True,
            evidence={"option": name},
            remedy=f"leave options.{name} out",
        )
        for name, value in options
        if value is not None and TraceOptions.model_fields[name].deprecated
    ]


def options_without_effect(spec: TraceSpec) -> list[Finding]:
    """Of those that torch.jit.trace alone takes, the ones that were set for a model that is scripted."""
    if spec.mode != "script":
        return []
    said = {f"options.{name}": (getattr(spec.options, name), TraceOptions.model_fields[name]) for name in _OF_A_TRACE}
    said["check.check_trace"] = spec.check.check_trace, CheckOptions.model_fields["check_trace"]
    return [
        Finding(
            kind=Kind.OPTION_WITHOUT_EFFECT,
            detail=f"{name} was set, which torch.jit.trace takes: a model that is scripted is the same without it",
            confirmed=True,
            evidence={"option": name},
            remedy=f"leave {name} out, or let `mode` be trace",
        )
        for name, (value, field) in said.items()
        if value != field.default
    ]


def torch_check_failed(check: TorchCheck) -> Finding:
    """torch's own check refuses the trace; ours decides."""
    first_lines = " ".join((check.message or "").strip().splitlines()[:2])
    return Finding(
        kind=Kind.TORCH_CHECK_FAILED,
        detail=first_lines,
        evidence={"method": check.method or _method_of(check), "message": check.message},
        remedy=_DID_YOU_FORGET if check.nondeterministic else None,
        **user_lines.where(place_of(check)),
    )


def torch_check_erred(check: TorchCheck) -> Finding:
    """torch's own check says something that is not to be taken at its word; ours decides."""
    return Finding(
        kind=Kind.TORCH_CHECK_ERRED,
        detail=check.error or "",
        evidence={"method": check.method, "message": check.message},
        **user_lines.where(place_of(check)),
    )


def place_of(check: TorchCheck) -> user_lines.Line | None:
    """The line of the node that torch's check blames first, of those whose line is known."""
    diverging = [check.first_diverging.trace] if check.first_diverging else []
    blamed = [*diverging, *(constant.node for constant in check.constants), *check.nondeterministic]
    places = [(node.file, node.line, node.source) for node in blamed]
    found = (
        user_lines.Line(file=file, line=line, source=source or "") for file, line, source in places if file and line
    )
    return next(found, None) or torch_check.line_of_parting(check.graph_diff or "")


def _shown(parting: GraphDivergence | None) -> dict[str, JsonValue] | None:
    if parting is None:
        return None
    return {"kind": parting.kind, "operator": parting.operator, "was": parting.was, "is": parting.is_}


def _method_of(check: TorchCheck) -> str | None:
    return next((differing.method for differing in check.outputs), None)
