"""Findings: what the check saw, each with its kind, its line where one is known, and what to write instead."""

from collections.abc import Sequence
from typing import Any

from service.domain.errors import ModelRaised
from service.domain.trace_check import Finding
from workers.closeness import Difference
from workers.tracing import doubts, graphs, lines
from workers.tracing.call import Call
from workers.tracing.checks.eager import Carried
from workers.tracing.trace import Warned

# By what torch's warning says.
_REMEDIES = [
    ("to a Python boolean", "choose by torch.where, or put the branch into a torch.jit.script function"),
    (
        "to a Python integer",
        "keep it a tensor; read a size where it is used, as x.shape[0]",
    ),
    ("to a Python float", "keep it a tensor, and compute with torch"),
    ("to a Python index", "index with the tensor itself"),
    ("to a Python number", "keep it a tensor, and compute with torch"),
    ("to a Python list", "keep it a tensor"),
    ("to a NumPy array", "compute with torch instead of numpy"),
    ("Iterating over a tensor", "compute on the whole tensor, or put the loop into a torch.jit.script function"),
    ("Using len to get tensor shape", "use x.shape[0]"),
    ("are registered as constants", "make the tensor in __init__ as a buffer, or from the inputs with torch operators"),
    ("in-place", "write into a tensor that forward made itself, or use the operator that is not in place"),
]
# Of these, the ones where a value of a tensor becomes Python's.
_VALUE_READS = ("to a Python ", "to a NumPy array", "Iterating over a tensor")


def is_value_read(warned: Warned) -> bool:
    """Whether a value of a tensor was read in Python, which the trace then keeps."""
    return any(words in warned.message for words in _VALUE_READS)


def tracer_warning(warned: Warned, *, confirmed: bool | None) -> Finding:
    """What the tracer could not record. Whether it matters, the comparisons tell."""
    message = warned.message.strip()
    if is_value_read(warned):
        message = (
            "a value was read out of a tensor here, and is baked in as it was on the example, with all that "
            f"follows from it; torch says: {message}"
        )
    return Finding(
        kind="tracer-warning",
        detail=message,
        confirmed=confirmed,
        remedy=next((remedy for words, remedy in _REMEDIES if words in message), None),
        **_where(warned.line),
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
    read = suspect is not None and any(warned.line == suspect and is_value_read(warned) for warned in warnings)
    return Finding(
        kind="output-differs" if in_contract else "output-differs-elsewhere",
        detail=f"{call.method} on {case}: {difference.leaf!r} differs{where}: {difference.what}",
        confirmed=True,
        evidence={
            "method": call.method,
            "case": case,
            "inputs": list(call.tensors),
            "output": difference.leaf,
            "index": difference.index,
            "eager": difference.eager,
            "artifact": difference.artifact,
        },
        remedy=doubts.ADVICE_ON_A_READ if read else doubts.ADVICE,
        **_where(suspect),
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
        **_where(graphs.line_of(node) if node else None),
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
        **_where(suspect),
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
        **_where(next((one.line for one in carried if one.line), None)),
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
        file=facts.get("file"),
        line=facts.get("line"),
        source=facts.get("source"),
    )


def probes_left_out(names: Sequence[str], why: str) -> Finding:
    """What the check did not try."""
    return Finding(
        kind="probes-left-out", detail=f"{why}; not tried: {', '.join(names)}", evidence={"probes": list(names)}
    )


def torch_check_failed(message: str, line: lines.Line | None) -> Finding:
    """torch's own check refuses the trace; ours decides."""
    first_lines = " ".join(message.strip().splitlines()[:2])
    return Finding(kind="torch-check-failed", detail=first_lines, evidence={"message": message}, **_where(line))


def _where(line: lines.Line | None) -> dict[str, Any]:
    return line.model_dump() if line else {}
