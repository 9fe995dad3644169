"""Findings about what torch itself says: the tracer's warnings, and torch's own check."""

from tracehouse.findings.finding import Effect, Finding
from tracehouse.findings.kinds import Kind
from tracehouse.findings.remedies import LET_MODE_BE_AUTO
from tracehouse.findings.source_lines import SourceLine
from tracehouse.findings.trace_check import TorchCheck, reads_value

# By the kind of the tracer's warning.
_REMEDIES = {
    "tensor-to-python-boolean": "choose with torch.where, or put the branch into a torch.jit.script function; "
    f"{LET_MODE_BE_AUTO}",
    "tensor-to-python-integer": "keep the number a tensor; read a size where it is used, as x.shape[0]; "
    f"{LET_MODE_BE_AUTO}",
    "tensor-to-python-float": "keep the number a tensor, and compute with torch operators",
    "tensor-to-python-complex": "keep the number a tensor, and compute with torch operators",
    "tensor-to-python-number": "keep the number a tensor, and compute with torch operators",
    "tensor-to-python-index": "index with the tensor itself",
    "tensor-to-python-list": "keep the values in a tensor",
    "tensor-to-numpy": "compute with torch operators instead of numpy",
    "iterating": f"compute on the whole tensor, or put the loop into a torch.jit.script function; {LET_MODE_BE_AUTO}",
    "len": "use x.shape[0]",
    "constant-registered": "create the tensor in __init__ as a buffer, or compute it from the inputs with torch "
    "operators",
    "in-place": "write into a tensor that forward created itself, or use the operator that is not in place",
    "resized": "use view or reshape",
}
_DID_YOU_FORGET = (
    "torch asks: did you forget to call .eval() on your model? In a trace request, let `training` be false; or "
    "draw no random numbers in eval mode"
)
_MEND_THE_OTHERS = (
    "mend what the other findings name, and torch's check passes then; if there is no other, nothing has to change, "
    "because the verdict comes from comparisons with the model, and not from this check"
)
_NOTHING_TO_CHANGE = "nothing has to change: the verdict comes from comparisons with the model, and not from this check"


def tracer_warning(
    method: str | None,
    warning: str,
    message: str,
    line: SourceLine,
    *,
    confirmed: bool | None,
    effect: Effect = "unknown",
    reason: str | None = None,
) -> Finding:
    """Return the finding of one TracerWarning. `warning` is its kind, such as `tensor-to-python-boolean`."""
    detail = message.strip()
    if reads_value(warning):
        detail = (
            "this line reads a value out of a tensor; the value, and all that follows from it, is baked in as it was "
            f"on the example; torch says: {detail}"
        )
    return Finding(
        kind=Kind.TRACER_WARNING,
        detail=detail,
        confirmed=confirmed,
        evidence={"method": method, "kind": warning},
        remedy=None if effect == "harmless" else _REMEDIES.get(warning),
        effect=effect,
        reason=reason,
        **line,
    )


def torch_check_failed(check: TorchCheck, line: SourceLine) -> Finding:
    """Return the finding that torch's own check refuses the trace. The verdict does not depend on it."""
    differing = next((one.method for one in check.outputs), None)
    return Finding(
        kind=Kind.TORCH_CHECK_FAILED,
        detail=" ".join((check.message or "").strip().splitlines()[:2]),
        evidence={"method": check.method or differing, "message": check.message},
        remedy=_DID_YOU_FORGET if check.nondeterministic else _MEND_THE_OTHERS,
        **line,
    )


def torch_check_erred(check: TorchCheck, line: SourceLine) -> Finding:
    """Return the finding that the result of torch's own check is not reliable. The verdict does not depend on it."""
    return Finding(
        kind=Kind.TORCH_CHECK_ERRED,
        detail=check.error or "",
        evidence={"method": check.method, "message": check.message},
        remedy=_NOTHING_TO_CHANGE,
        **line,
    )
