"""Tracing: the only caller of torch.jit.trace_module. Its warnings and its own check are returned as data."""

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any, TextIO

import torch
from torch.jit._trace import TracerWarning

from tracehouse.contract.structure import Structure
from tracehouse.differential.case_names import is_sample
from tracehouse.differential.comparison import compare_baked_arguments
from tracehouse.eager import observed_contract
from tracehouse.eager.call import Call, CheckCall, bake
from tracehouse.eager.model import LoadedModel
from tracehouse.errors import UntraceableModel
from tracehouse.findings.trace_check import TorchCheck
from tracehouse.introspection import paths, user_lines
from tracehouse.spec.trace_spec import TraceOptions
from tracehouse.step_times import step
from tracehouse.torchscript import archives, torch_check
from tracehouse.torchscript.archives import Archive
from tracehouse.torchscript.autograd_functions import InlinedFunction, inline_autograd_functions
from tracehouse.torchscript.exported_methods import pass_over_raising_properties
from tracehouse.torchscript.torch_check import RecordedWarning
from tracehouse.torchscript.trace_errors import translate_refusal
from tracehouse.torchscript.trace_shells import TraceShell, whole_then_shells
from tracehouse.torchscript.tracing_state import keep_tracing_state


@dataclass(frozen=True)
class TraceResult:
    """A traced (or scripted) module with its archive, and what torch said about it."""

    module: torch.jit.ScriptModule
    archive: Archive
    warnings: list[RecordedWarning]  # what the tracer could not record
    torch_check: TorchCheck
    inlined: Sequence[InlinedFunction] = ()


@dataclass(frozen=True)
class Retraced:
    """The graph of a method that was traced once more.

    `returns` is how what it returned nests, with the constants; None if the trace itself returns all of it.
    """

    module: TraceShell
    returns: Structure | None = None


# Traces one method once more, on another call, under a context. Raises what tracing raises.
Retrace = Callable[[Call, AbstractContextManager[Any]], Retraced]
_Warnings = dict[RecordedWarning, None]  # in order, each once: torch's check traces again


def trace(
    model: LoadedModel,
    calls: Mapping[str, Call],
    options: TraceOptions,
    *,
    outputs: Mapping[str, Any],
    check: bool,
    tolerance: float,
    check_calls: Sequence[CheckCall] = (),
    gradients: bool = False,
) -> TraceResult:
    """Trace the calls' methods on a copy of the model. Raises a TraceError that says why torch refuses.

    `outputs` are the eager model's, by method. With `check`, torch's own check runs with `tolerance`, a relative error;
    its result is reported and decides nothing. With `gradients`, the trace is recorded with gradients enabled.
    """
    check_names(model, calls)
    recording = _Recording(model, calls, check_calls, options, tolerance, gradients)
    warned: _Warnings = {}
    failed: Exception | None = None
    with _record_warnings(warned):
        try:
            module = recording.trace(check=check)
        except Exception as raised:
            if not check:
                raise translate_refusal(raised, model, calls) from raised
            failed = raised
            module = recording.trace_unchecked()
        archive = recording.save(module)
        error = recording.explain_failed_check(failed)
    seen = [*warned]
    names = {method: torch_check.name_outputs(one, calls[method]) for method, one in outputs.items()}
    report = torch_check.report(module, names, seen, failed, error) if check else torch_check.report_not_run(seen)
    of_trace = [one for one in seen if not (one.is_from_check or one.of_repeat)]
    return TraceResult(module, archive, of_trace, report, [*recording.inlined.values()])


def retrace(
    model: LoadedModel, call: Call, options: TraceOptions, within: AbstractContextManager[Any], *, gradients: bool
) -> Retraced:
    """Trace one method again with the same options, inside the context `within`. Raises whatever tracing raises."""
    recording = _Recording(model, {call.method: call}, (), options, 1.0, gradients)
    with warnings.catch_warnings(action="ignore"):
        module = recording.record(TraceShell, check=False, within=within)
    return Retraced(module, recording.returned.get(call.method))


def check_names(model: LoadedModel, calls: Mapping[str, Call]) -> None:
    """Raise UntraceableModel for a name that is not ASCII: torch writes it into an archive, but cannot load that."""
    named = [("parameter", name) for call in calls.values() for name in call.arguments]
    named += [("method", method) for method in calls]
    for path, part in model.module.named_modules():
        tensors = [*part.named_parameters(recurse=False), *part.named_buffers(recurse=False)]
        named += [("attribute", path), ("class", type(part).__name__), *(("attribute", name) for name, _ in tensors)]
    for kind, name in named:
        if not name.isascii():
            raise UntraceableModel(
                f"torch cannot load an archive in which the {kind} {name!r} has letters outside ASCII",
                name=name,
                remedy=f"rename the {kind} with the letters a to z",
            )


@dataclass(frozen=True)
class _Recording:
    """Traces one model, each time on a new copy, because a trace and its check run the copy several times."""

    model: LoadedModel
    calls: Mapping[str, Call]
    check_calls: Sequence[CheckCall]
    options: TraceOptions
    tolerance: float
    gradients: bool
    inlined: dict[str, InlinedFunction] = field(default_factory=dict)
    returned: dict[str, Structure] = field(default_factory=dict)  # by the methods of which a trace keeps tensors alone

    def trace(self, *, check: bool, gradients: bool | None = None) -> torch.jit.ScriptModule:
        """Trace the calls' methods. Raises whatever tracing or torch's check raises."""
        module_class = whole_then_shells() if check else None
        traced: torch.jit.ScriptModule = self.record(module_class, check=check, gradients=gradients)
        return traced

    def record(
        self,
        module_class: Callable[..., Any] | None,
        *,
        check: bool,
        gradients: bool | None = None,
        within: AbstractContextManager[Any] | None = None,
    ) -> Any:
        """Trace the calls' methods inside the context `within`, and return a `module_class`, or torch's own class.

        Raises whatever tracing or torch's check raises.
        """
        module = self.model.copy_module()
        bake(module, self.calls, self.returned)
        keep_tracing_state(module, self.calls)
        # Gradients are off, as they are when the eager model and the artifact are called. With gradients, a model may
        # take another path (nn.TransformerEncoder does), and the trace would keep it. torch's check has them off too.
        # Gradients are on only if the artifact's gradients are to be compared, because not every path has gradients.
        # Inference mode is no choice: its tensors cannot be saved as parameters, nor used if a model enables gradients.
        gradients = self.gradients if gradients is None else gradients
        inlining = inline_autograd_functions(self.inlined)
        passing_over = pass_over_raising_properties()
        with torch.set_grad_enabled(gradients), within or nullcontext(), inlining, passing_over:
            return torch.jit.trace_module(
                module,
                _artifact_args(self.calls),
                check_trace=check,
                check_inputs=self._check_inputs() if check else None,
                check_tolerance=self.tolerance,
                strict=self.options.strict,
                _force_outplace=self.options.force_outplace,
                _store_inputs=self.options.store_inputs,
                _module_class=module_class,
            )

    def _check_inputs(self) -> list[dict[str, tuple[Any, ...]]]:
        """Return inputs for torch's check, each for all methods. Inputs that do not fit the trace are left out."""
        # torch traces once more for each, and our own check calls the samples.
        fitting = [check.call for check in self.check_calls if not is_sample(check.name) and self._fits(check.call)]
        return [
            _artifact_args(calls) for calls in (self.calls, *({**self.calls, call.method: call} for call in fitting))
        ]

    def _fits(self, call: Call) -> bool:
        example = self.calls[call.method]
        return (
            compare_baked_arguments(
                observed_contract.describe_arguments(example), observed_contract.describe_arguments(call)
            )
            is None
        )

    def trace_unchecked(self) -> torch.jit.ScriptModule:
        """Trace without torch's check. Raises a TraceError if torch refuses."""
        try:
            return self.trace(check=False)
        except Exception as error:
            raise translate_refusal(error, self.model, self.calls) from error

    def save(self, module: torch.jit.ScriptModule) -> Archive:
        try:
            with step("save"):
                return archives.save(module)
        except Exception as error:
            raise translate_refusal(error, self.model, self.calls) from error

    def explain_failed_check(self, failed: Exception | None) -> str | None:
        """Return why the check failed if the trace is not at fault, else None.

        The check always records without gradients, and so may differ from a trace that was recorded with gradients.
        """
        if failed is None or not self.gradients:
            return None
        try:
            with warnings.catch_warnings(action="ignore"):
                self.trace(check=True, gradients=False)
        except Exception:  # noqa: BLE001 - torch's check fails for another reason, or the model's code raises
            return None
        return (
            "the trace was recorded with gradients, but torch's check records without them, and then the model takes "
            "another path: a trace recorded without gradients passes; our own check decides"
        )


def _artifact_args(calls: Mapping[str, Call]) -> dict[str, tuple[Any, ...]]:
    return {method: call.clone().artifact_args for method, call in calls.items()}


@contextmanager
def _record_warnings(warned: _Warnings) -> Iterator[None]:
    """Add the tracer's warnings inside to `warned`."""
    with warnings.catch_warnings():
        # torch's filter on "torch.(?!jit)" hides the warnings of its own libraries, but also those of torchvision.
        warnings.filterwarnings("always", category=TracerWarning)
        # torch.jit warns at each call that it is deprecated, from 2.14 on in a FutureWarning, which Python prints. The
        # user did not call it.
        warnings.filterwarnings("ignore", message=r"`torch\.jit\.")
        print_warning = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if not issubclass(category, TracerWarning):
                print_warning(message, category, filename, lineno, file, line)
                return
            if not user_lines.is_library_of_torch(filename):
                caller = sys._getframe(1)
                found = _describe_warning(str(message), caller)
                if replace(found, of_repeat=False) not in warned:
                    warned[found] = None

        warnings.showwarning = show
        yield


def _describe_warning(message: str, caller: FrameType) -> RecordedWarning:
    text = paths.without_paths_in_stacks(user_lines.clean_text(message)).strip()
    method, of_repeat = torch_check.find_recorded_method(caller), torch_check.is_in_check(caller)
    found = RecordedWarning(text, user_lines.line_of_frame(caller), method, of_repeat)
    # A warning of the check is about a whole method, and has no line.
    return replace(found, line=None) if found.is_from_check else found
