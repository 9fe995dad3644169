"""Findings: what the check saw, each with its kind, its line where one is known, and what to write instead."""

from collections.abc import Sequence
from typing import Any

from service.domain.errors import ModelRaised
from service.domain.trace_check import Finding, TorchCheck
from service.domain.trace_request import CheckOptions, TraceOptions, TraceSpec
from workers.closeness import Difference
from workers.tracing import doubts, graphs, lines, torch_check
from workers.tracing.call import Call
from workers.tracing.checks.eager import Carried
from workers.tracing.torch_check import Warned

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

# Options that torch.jit.script does not take.
_OF_A_TRACE = ("strict", "force_outplace", "store_inputs")

_DID_YOU_FORGET = (
    "torch asks: did you forget to call .eval() on your model? Let `training` be false, or leave randomness out of "
    "what forward computes in eval mode"
)


def tracer_warning(warned: Warned, *, confirmed: bool | None) -> Finding:
    """What the tracer could not record. Whether it matters, the comparisons tell."""
    message = warned.message.strip()
    if warned.reads_value:
        message = (
            "a value was read out of a tensor here, and is baked in as it was on the example, with all that "
            f"follows from it; torch says: {message}"
        )
    return Finding(
        kind="tracer-warning",
        detail=message,
        confirmed=confirmed,
        evidence={"method": warned.method, "kind": warned.kind},
        remedy=_REMEDIES.get(warned.kind),
        **lines.where(warned.line),
    )


def differs(
    call: Call,
    case: str,
    difference: Difference,
    warnings: Sequence[Warned],
    *,
    in_contract: bool,
    suspect: lines.Line | None,
) -> Finding:
    """Eager and artifact answer differently."""
    where = "" if in_contract else ", on inputs that the contract leaves out"
    read = suspect is not None and any(warned.line == suspect and warned.reads_value for warned in warnings)
    return Finding(
        kind="output-differs" if in_contract else "output-differs-elsewhere",
        detail=f"{call.method} on {case}: {difference.leaf!r} differs{where}: {difference.what}",
        confirmed=True,
        evidence={
            "method": call.method,
            "case": case,
            "inputs": list(call.tensors),
            "output": difference.leaf,
            **difference.evidence,
        },
        remedy=doubts.ADVICE_ON_A_READ if read else doubts.ADVICE,
        **lines.where(suspect),
    )


def nondeterministic(call: Call, difference: Difference, graph: Any) -> Finding:
    """Eager answers otherwise when it draws other random numbers."""
    node = next((node for node in graphs.nodes(graph) if node.isNondeterministic()), None)
    return Finding(
        kind="nondeterministic",
        detail=f"{call.method} draws random numbers, and answers differently each time: {difference.what}",
        confirmed=True,
        evidence={"method": call.method, "output": difference.leaf, "operator": node.kind() if node else None},
        remedy=doubts.ADVICE_ON_RANDOMNESS,
        **lines.where(graphs.line_of(node) if node else None),
    )


def draws(method: str, node: graphs.Node | None) -> Finding:
    """Random numbers were drawn, and no answer has shown it."""
    return Finding(
        kind="draws-random-numbers",
        detail=f"{method} draws random numbers: no two answers were seen to differ by them, and others may",
        evidence={"method": method, "operator": node.kind() if node else None},
        remedy=doubts.ADVICE_ON_RANDOMNESS,
        **lines.where(graphs.line_of(node) if node else None),
    )


def hidden_state(call: Call, difference: Difference, suspect: lines.Line | None) -> Finding:
    """Eager answers otherwise when it is asked again."""
    return Finding(
        kind="hidden-state",
        detail=f"{call.method} answers the same inputs differently after another call: {difference.what}",
        confirmed=True,
        evidence={
            "method": call.method,
            "output": difference.leaf,
            "first": difference.eager,
            "second": difference.artifact,
        },
        remedy=doubts.ADVICE_ON_STATE,
        **lines.where(suspect),
    )


def carries_state(call: Call, carried: Sequence[Carried]) -> Finding:
    """Each call changes something that the next one reads, though no answer has shown it yet."""
    names = [one.name for one in carried]
    return Finding(
        kind="hidden-state",
        detail=f"each call of {call.method} changes {', '.join(names)}, which the next call reads: "
        "it was not seen in an answer, and may show in a later one",
        evidence={"method": call.method, "state": names},
        remedy=doubts.ADVICE_ON_STATE,
        **lines.where(next((one.line for one in carried if one.line), None)),
    )


def changes_input(call: Call, names: Sequence[str]) -> Finding:
    """It writes into its inputs, as does the artifact."""
    return Finding(
        kind="changes-its-input",
        detail=f"{call.method} writes into {', '.join(names)}, as the artifact does; a reply does not show it",
        confirmed=True,
        evidence={"method": call.method, "inputs": list(names)},
    )


def refused_check_input(case: str, error: ModelRaised) -> Finding:
    """The eager model itself refuses a check input, which then says nothing of the trace."""
    facts = error.facts
    return Finding(
        kind="check-input-refused",
        detail=f"{case}: {error.detail}",
        evidence={"case": case, "exception": facts.get("exception")},
        remedy=doubts.ADVICE_ON_CHECK_INPUTS,
        file=facts.get("file"),
        line=facts.get("line"),
        source=facts.get("source"),
    )


def probes_left_out(names: Sequence[str], why: str) -> Finding:
    """What the check did not try."""
    return Finding(
        kind="probes-left-out", detail=f"{why}; not tried: {', '.join(names)}", evidence={"probes": list(names)}
    )


def deprecated_options(options: TraceOptions) -> list[Finding]:
    """Of those that are given, the ones that torch takes and ignores."""
    return [
        Finding(
            kind="deprecated-option",
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
            kind="option-without-effect",
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
        kind="torch-check-failed",
        detail=first_lines,
        evidence={"method": check.method or _method_of(check), "message": check.message},
        remedy=_DID_YOU_FORGET if check.nondeterministic else None,
        **lines.where(place_of(check)),
    )


def torch_check_erred(check: TorchCheck) -> Finding:
    """torch's own check says something that is not to be taken at its word; ours decides."""
    return Finding(
        kind="torch-check-erred",
        detail=check.error or "",
        evidence={"method": check.method, "message": check.message},
        **lines.where(place_of(check)),
    )


def place_of(check: TorchCheck) -> lines.Line | None:
    """The line of the node that torch's check blames first, of those whose line is known."""
    diverging = [check.first_diverging.trace] if check.first_diverging else []
    blamed = [*diverging, *(constant.node for constant in check.constants), *check.nondeterministic]
    places = [(node.file, node.line, node.source) for node in blamed]
    found = (lines.Line(file=file, line=line, source=source or "") for file, line, source in places if file and line)
    return next(found, None) or torch_check.line_of_parting(check.graph_diff or "")


def _method_of(check: TorchCheck) -> str | None:
    return next((differing.method for differing in check.outputs), None)
