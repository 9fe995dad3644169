"""Findings that follow from what was submitted: options, archives, buckets; and one about stored findings."""

from collections.abc import Mapping, Sequence
from typing import Any

from tracehouse.findings.finding import Finding
from tracehouse.findings.kinds import Kind
from tracehouse.findings.remedies import REPLACE_BACKWARD
from tracehouse.spec.trace_spec import CheckOptions, TraceOptions, TraceSpec

_DETAIL_MAX_CHARACTERS = 1000
# Options that torch.jit.script does not take.
_TRACE_OPTIONS = ("strict", "force_outplace", "store_inputs")


def deprecated_options(options: TraceOptions) -> list[Finding]:
    """Return a finding for each option that was given and that torch accepts and ignores."""
    return [
        Finding(
            kind=Kind.DEPRECATED_OPTION,
            detail=f"options.{name} was given: torch.jit ignores it, and will remove it",
            evidence={"option": name},
            remedy=f"leave out options.{name}",
        )
        for name, value in options
        if value is not None and TraceOptions.model_fields[name].deprecated
    ]


def options_without_effect(spec: TraceSpec) -> list[Finding]:
    """Return a finding for each option of torch.jit.trace that was given for a model that is scripted."""
    if spec.mode != "script":
        return []
    given = {
        f"options.{name}": (getattr(spec.options, name), TraceOptions.model_fields[name]) for name in _TRACE_OPTIONS
    }
    given["check.check_trace"] = spec.check.check_trace, CheckOptions.model_fields["check_trace"]
    return [
        Finding(
            kind=Kind.OPTION_WITHOUT_EFFECT,
            detail=f"{name} was given: it is an option of torch.jit.trace, and has no effect on a scripted model",
            evidence={"option": name},
            remedy=f"leave out {name}, or let `mode` be trace",
        )
        for name, (value, field) in given.items()
        if value != field.default
    ]


def stubbed_packages(packages: Sequence[str]) -> list[Finding]:
    """Return a finding for each package that the source imported as a stub."""
    return [
        Finding(
            kind=Kind.STUBBED_PACKAGE,
            detail=f"{package} is not installed, and the source imported a stub in its place. The stub raises when "
            "it is used",
            evidence={"package": package},
            remedy=f"nothing has to change while the model does not need {package}; else install it beside the service",
        )
        for package in packages
    ]


def already_scripted() -> Finding:
    """Return the finding that the entrypoint is a ScriptModule, from which torch makes nothing new."""
    return Finding(
        kind=Kind.ALREADY_SCRIPTED,
        detail="the model is a ScriptModule already, and is kept as it is: torch.jit.trace and torch.jit.script "
        "return such a module unchanged. It was compared with itself, which does not show whether it is right for the "
        "Python model that it was made from",
        remedy="hand in the nn.Module itself",
    )


def inlined_function(name: str, line: Mapping[str, Any], *, gradients: bool) -> Finding:
    """Return the finding that the trace has the operators of a custom autograd function's forward.

    `line` is the line that calls it, as facts; `gradients` says whether the request compares gradients.
    """
    compared = "They are compared" if gradients else "They are not compared, as check.gradients is not set"
    return Finding(
        kind=Kind.AUTOGRAD_FUNCTION_INLINED,
        detail=f"the artifact has the operators of {name}.forward, and not its backward: the artifact's gradients are "
        f"those that torch has for these operators. {compared}",
        **line,
        confirmed=True,
        evidence={"function": name},
        remedy=REPLACE_BACKWARD,
    )


def no_eager_model() -> Finding:
    """Return the finding that an archive was uploaded, so that nothing else can be compared with it."""
    return Finding(
        kind=Kind.NO_EAGER_MODEL,
        detail="an archive was uploaded, so there is no eager model. The archive was compared with itself, in another "
        "process and in the form that is served, and its graphs were searched for state and random numbers. That shows "
        "whether it answers the same each time on the inputs that were tried. It does not show what it answers on "
        "others, nor whether it is right for the model that it was made from",
        remedy="submit the model's source instead of the archive",
    )


def saved_in_train_mode() -> Finding:
    """Return the finding that an uploaded archive is in train mode."""
    return Finding(
        kind=Kind.SAVED_IN_TRAIN_MODE,
        detail="the archive was saved in train mode, and is served as it was uploaded",
        remedy="call eval() on the model before torch.jit.save",
    )


def bucket_left_out(symbol: str, size: int, reason: str) -> Finding:
    """Return the finding that there is no artifact for one of the requested sizes."""
    detail = f"there is no artifact for {symbol} {size}, and requests of that size are refused: {reason}"
    return Finding(
        kind=Kind.BUCKET_LEFT_OUT,
        detail=detail[:_DETAIL_MAX_CHARACTERS],
        confirmed=True,
        evidence={"sizes": {symbol: size}},
        remedy="leave that size out of `buckets`, or submit a model that can be traced with it",
    )


def buckets_not_needed(symbol: str, sizes: Sequence[int]) -> Finding:
    """Return the finding that one artifact accepts all requested sizes."""
    return Finding(
        kind=Kind.BUCKETS_NOT_NEEDED,
        detail=f"one artifact accepts all listed sizes of {symbol} as it accepts the example's; its contract says "
        "which others it accepts",
        evidence={"symbol": symbol, "sizes": [*sizes]},
        remedy="leave out `buckets`",
    )


def findings_unreadable() -> Finding:
    """Return the finding that stands for stored findings which this release cannot read."""
    return Finding(
        kind=Kind.FINDINGS_UNREADABLE,
        detail="the findings of this trace request are stored, and this release cannot read them",
        remedy='submit the same request again with "force": true',
    )
