"""Tracing: the only caller of torch.jit.trace_module; its warnings and its own check come out as data."""

import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TextIO

import torch
from torch.jit._trace import TracerWarning

from service.domain.errors import TraceError, UnsupportedOutput, UntraceableModel
from service.domain.trace_check import TorchCheck
from service.domain.trace_request import TraceOptions
from workers.tracing import lines
from workers.tracing.blame import is_out_of_memory, out_of_memory
from workers.tracing.call import Call, bake
from workers.tracing.model import Model

_MESSAGE_MAX_CHARACTERS = 20_000

# By what torch says: which of our errors it is, and what to write instead.
_KNOWN_REFUSALS: list[tuple[str, type[TraceError], str]] = [
    ("pass strict=False", UnsupportedOutput, "return a tuple or a NamedTuple, or set options.strict to false"),
    ("can be output from traced functions", UnsupportedOutput, "return tensors, in tuples, lists or dicts"),
    (
        "cannot be understood by the tracer",
        UnsupportedOutput,
        "return tensors, or tuples, lists and dicts of tensors",
    ),
    ("must have consistent", UntraceableModel, "let all items of a list, or all values of a dict, be of one type"),
    (
        "requires grad as a constant",
        UntraceableModel,
        "register the tensor as a parameter or buffer of the model, or detach it",
    ),
    ("parameter sharing", UntraceableModel, "register each parameter under one name"),
    ("backward hooks", UntraceableModel, "remove the backward hooks before tracing"),
    ("tracing is already in progress", UntraceableModel, "do not call torch.jit.trace inside the model"),
]


@dataclass(frozen=True)
class Warned:
    """A TracerWarning, and the user's line that caused it."""

    message: str
    line: lines.Line | None


@dataclass(frozen=True)
class Traced:
    module: torch.jit.ScriptModule
    archive: bytes
    warnings: list[Warned]
    torch_check: TorchCheck


@dataclass
class _Warnings:
    of_tracing: dict[Warned, None] = field(default_factory=dict)  # in order, each once: the check traces again
    of_check: list[str] = field(default_factory=list)


def trace(model: Model, calls: Mapping[str, Call], options: TraceOptions, *, check: bool, tolerance: float) -> Traced:
    """Trace the calls' methods. Raises UntraceableModel or UnsupportedOutput.

    What torch's own check finds is reported, and decides nothing.
    """
    _check_names(model, calls)
    warned = _Warnings()
    failed: Exception | None = None
    with _recorded(warned):
        try:
            module = _traced(model, calls, options, check=check, tolerance=tolerance)
        except Exception as error:
            if not check:
                raise _refusal(error) from error
            failed = error
            module = _traced_unchecked(model, calls, options, tolerance)
    return Traced(module, _saved(module), list(warned.of_tracing), _torch_check(check, failed, warned.of_check))


def _check_names(model: Model, calls: Mapping[str, Call]) -> None:
    """torch writes an archive with other names than ASCII ones, and cannot read it."""
    named = [("parameter", name) for call in calls.values() for name in call.arguments]
    named += [("method", method) for method in calls]
    for path, part in model.module.named_modules():
        held = [*part.named_parameters(recurse=False), *part.named_buffers(recurse=False)]
        named += [("attribute", path), ("class", type(part).__name__), *(("attribute", name) for name, _ in held)]
    for kind, name in named:
        if not name.isascii():
            raise UntraceableModel(
                f"torch cannot load an archive in which the {kind} {name!r} has letters outside ASCII",
                name=name,
                remedy=f"rename the {kind} with the letters a to z",
            )


def _traced_unchecked(
    model: Model, calls: Mapping[str, Call], options: TraceOptions, tolerance: float
) -> torch.jit.ScriptModule:
    """On a new copy, for the failed check has run the first one several times."""
    try:
        return _traced(model, calls, options, check=False, tolerance=tolerance)
    except Exception as error:
        raise _refusal(error) from error


def _traced(
    model: Model, calls: Mapping[str, Call], options: TraceOptions, *, check: bool, tolerance: float
) -> torch.jit.ScriptModule:
    module = model.fresh()
    bake(module, calls)
    # Without gradients, because that is how eager is asked and how the artifact is served: a model may take another
    # path with them (nn.TransformerEncoder does), and the trace would keep it. torch's own check runs without, too.
    # Not in inference mode: its tensors cannot be saved as a parameter, nor used where a model enables gradients.
    with torch.no_grad():
        traced: torch.jit.ScriptModule = torch.jit.trace_module(
            module,
            {method: call.cloned().handed_over() for method, call in calls.items()},
            check_trace=check,
            check_tolerance=tolerance,
            strict=options.strict,
            _force_outplace=options.force_outplace,
        )
    return traced


def _saved(module: torch.jit.ScriptModule) -> bytes:
    """What torch.jit.save writes, without its copies."""
    saved: bytes = module.save_to_buffer()
    return saved


@contextmanager
def _recorded(warned: _Warnings) -> Iterator[None]:
    with warnings.catch_warnings():
        # torch hides what its own libraries cause by a filter on "torch.(?!jit)", which hides torchvision's as well.
        warnings.filterwarnings("always", category=TracerWarning)
        # torch.jit says at each call that it is deprecated: the user did not call it.
        warnings.filterwarnings("ignore", message=r"`torch\.jit\.", category=DeprecationWarning)
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
            text = str(message)
            if text.startswith(("Output nr ", "Trace had nondeterministic nodes")):
                warned.of_check.append(text)
            elif not lines.is_library_of_torch(filename):
                warned.of_tracing[Warned(text, lines.of_frame(sys._getframe(1)))] = None

        warnings.showwarning = show
        yield


def _torch_check(ran: bool, failed: Exception | None, differing: list[str]) -> TorchCheck:
    if not ran:
        return TorchCheck(ran=False)
    messages = [*([lines.text_of(failed)] if failed else []), *differing]
    return TorchCheck(
        ran=True, passed=not messages, message="\n".join(messages)[:_MESSAGE_MAX_CHARACTERS] if messages else None
    )


def _refusal(error: Exception) -> TraceError:
    if isinstance(error, TraceError):
        return error
    if is_out_of_memory(error):
        return out_of_memory(error)
    text = lines.text_of(error)
    facts: dict[str, Any] = lines.facts_of(error)
    for words, kind, remedy in _KNOWN_REFUSALS:
        if words in text:
            # What is wrong stands in the last line, after values and graphs.
            return kind(f"torch refused: {text.strip().splitlines()[-1].lstrip(': ')}", remedy=remedy, **facts)
    return UntraceableModel(f"tracing raised {type(error).__name__}: {text}", **facts)
