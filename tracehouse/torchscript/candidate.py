"""A candidate: a compiled module that may become the artifact, made from a submission by a conversion."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch

from tracehouse.artifact.manifest import Form
from tracehouse.eager import uploaded_archive
from tracehouse.eager.call import Call
from tracehouse.eager.model import LoadedModel
from tracehouse.eager.submission import LoadedSubmission
from tracehouse.findings import submissions
from tracehouse.findings.finding import Finding
from tracehouse.introspection import user_lines
from tracehouse.spec.conversion import Conversion, ScriptTarget
from tracehouse.spec.trace_spec import CheckOptions, TraceOptions
from tracehouse.torchscript import script, script_targets
from tracehouse.torchscript.trace import Retrace, Retraced, TraceResult, retrace, trace

_INLINED_MAX = 50  # a finding each


@dataclass(frozen=True)
class Candidate:
    """A compiled module with its archive, how it was made, and the findings about how it was made.

    `retrace` traces one of its methods once more; it is None if nothing was traced.
    """

    traced: TraceResult
    form: Form
    findings: list[Finding] = field(default_factory=list)
    retrace: Retrace | None = None

    def without_archive(self) -> "Candidate":
        """Return the candidate without the archive's bytes, which take as much memory as the model."""
        return replace(self, traced=replace(self.traced, archive=b""))


def candidate_of(
    loaded: LoadedSubmission,
    options: TraceOptions,
    check: CheckOptions,
    conversion: Conversion,
    outputs: Mapping[str, Any],
) -> Candidate:
    """Convert a copy of the model and return the candidate.

    `outputs` are the eager model's outputs on the examples, by method. Raises a TraceError that says why torch refuses.
    """
    if loaded.model.is_compiled:
        return _keep_compiled(loaded)
    return (
        _script_model(loaded)
        if conversion.mode == "script"
        else _trace_model(loaded, options, check, conversion, outputs)
    )


def _keep_compiled(loaded: LoadedSubmission) -> Candidate:
    """Return a model that is compiled already as a candidate. An uploaded archive keeps its bytes."""
    module = loaded.model.copy_module()
    assert isinstance(module, torch.jit.ScriptModule)  # as the model is
    if loaded.uploaded is not None:
        return Candidate(
            script.result_without_trace(module, loaded.uploaded()), "uploaded", uploaded_archive.findings(module)
        )
    return Candidate(script.keep_compiled(module, loaded.calls), "scripted", [submissions.already_scripted()])


def _script_model(loaded: LoadedSubmission) -> Candidate:
    """Script the model, whose calls must be scripted ones."""
    return Candidate(script.script(loaded.model, loaded.calls), "scripted")


def _trace_model(
    loaded: LoadedSubmission,
    options: TraceOptions,
    check: CheckOptions,
    conversion: Conversion,
    outputs: Mapping[str, Any],
) -> Candidate:
    result = trace(
        _with_scripted_targets(loaded.model, conversion.scripted),
        loaded.calls,
        options,
        outputs=outputs,
        check=check.check_trace,
        tolerance=check.tolerance,
        check_calls=loaded.check_calls,
        gradients=check.gradients,
    )
    loaded.model.shared.restore()  # puts back the functions that were scripted
    retrace = partial(_trace_again, loaded.model, options, check, conversion)
    found = [
        submissions.inlined_function(one.name, user_lines.line_facts(one.line), gradients=check.gradients)
        for one in result.inlined[:_INLINED_MAX]
    ]
    return Candidate(result, "mixed" if conversion.scripted else "traced", found, retrace)


def _trace_again(
    model: LoadedModel,
    options: TraceOptions,
    check: CheckOptions,
    conversion: Conversion,
    call: Call,
    within: AbstractContextManager[Any],
) -> Retraced:
    try:
        return retrace(
            _with_scripted_targets(model, conversion.scripted), call, options, within, gradients=check.gradients
        )
    finally:
        model.shared.restore()


def _with_scripted_targets(model: LoadedModel, wanted: Sequence[ScriptTarget]) -> LoadedModel:
    return (
        model.with_changed_copies(lambda copy: script_targets.script_in_place(copy, wanted, script.script_target))
        if wanted
        else model
    )
