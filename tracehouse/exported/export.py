"""Export: torch.export is tried in the ways of torch.jit.trace's own report. Every failure is returned as data.

This is the only caller of torch.export. An export changes the process's state, so it runs last, and on copies.
"""

import io
import logging
import re
import sys
import sysconfig
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from functools import wraps
from os import environ, sep
from types import FunctionType, MethodType, ModuleType
from typing import Any

import torch

from tracehouse.artifact.exportability import (
    DETAIL_MAX_CHARACTERS,
    ERROR_MAX_CHARACTERS,
    PLACE_MAX_CHARACTERS,
    ExportAttempt,
    ExportOutcome,
    ExportWay,
    method_to_keep,
    plan_attempts,
)
from tracehouse.artifact.file_limits import EXPORTED_MAX_BYTES
from tracehouse.artifact.manifest import Form
from tracehouse.eager.call import Call
from tracehouse.eager.model import LoadedModel
from tracehouse.eager.source import seed_all
from tracehouse.introspection import script_graphs, user_lines
from tracehouse.torch_values import returned
from tracehouse.torch_values.compare import compare
from tracehouse.torchscript.trace import TraceResult

_CANNOT_IMPORT = (
    "not all of torch.export can be imported here: if submitted code cannot read any files, as in the sandbox's tier "
    "seccomp, let the file that PRELOAD names do such an export once"
)
_ONLY_FORWARD = "torch translates only a module's forward"
_KEEPS = "torch warned of what the trace keeps of its example, at {places}: the exported program keeps it too"
# Where torch's advice begins: about calls that the user did not make, and the line that torch blames.
_ADVICE = re.compile(
    r"\n[^\S\n]*(?:The error above occurred when|For more information, run with TORCH_LOGS|Caused by: \()"
)
# A path is tried from its beginning alone: from each of its slashes, a long one would take quadratic time.
_PACKAGES = re.compile(r"(?<![^\s:'\"(),])([^\s:'\"(),/]*+)(?:/[^\s:'\"(),]*)?/(?:site|dist)-packages/")
_DIRECTORIES = re.compile(r"(?<![\w.])/(?:[^\s/:'\"(),]+/)+(?=[^\s/:'\"(),]+)")
_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b")
# The place of a node in TorchScript's messages, and what its interpreter puts before the error itself.
_NODE_PLACE = re.compile(r"(?:# |File \")([^\s\":]+)(?:\", line |:)(\d+)")
_INTERPRETER = "failed in the TorchScript interpreter"
_UNTRANSLATED = re.compile(r"failed for node (\S+)")
_REMOTE_MODULES = "torch.distributed.nn.jit.instantiator"
# torch computes shapes with these packages. Lines in them are not the model's.
_ARITHMETIC = tuple(f"{package}/" for package in ("sympy", "mpmath", "numpy"))


@dataclass(frozen=True)
class ExportResult:
    """The outcome of an attempt, and the bytes that torch.export.save wrote, if the program is to be kept."""

    attempt: ExportAttempt
    program: bytes | None = None


class Export:
    """The attempts to export one submission.

    `outputs` are the eager model's outputs of the calls, or those of the archive if one was uploaded. `tolerance` is
    the relative error that is allowed, `form` how the archive was made.
    """

    def __init__(
        self,
        model: LoadedModel,
        calls: Mapping[str, Call],
        outputs: Mapping[str, Any],
        traced: TraceResult,
        form: Form,
        *,
        tolerance: float,
        seed: int,
    ) -> None:
        self._model = model
        self._calls = calls
        self._form = form
        self._sides = ("the archive" if form == "uploaded" else "eager", "the exported program")
        self._outputs = outputs
        # Both are needed: a loaded archive's tensors are not nn.Parameters, which torch.export requires.
        self._traced = traced.module
        self._archive = traced.archive
        self._warned = [warned.line for warned in traced.warnings if warned.line is not None]
        self._tolerance = tolerance
        self._seed = seed

    def run_attempts(self) -> Iterator[ExportResult]:
        """Make each planned attempt and yield its outcome. Nothing is raised. Only one method's program is kept."""
        for method, way in plan_attempts(self._calls, self._form):
            exported = self._try_attempt(method, way)
            yield exported if method == method_to_keep(self._calls) else replace(exported, program=None)

    def _try_attempt(self, method: str, way: ExportWay) -> ExportResult:
        """Return the outcome, also if submitted code or torch raises."""
        if way == "source-to-source" and method != "forward":
            return ExportResult(_report(method, way, "not-tried", detail=_ONLY_FORWARD))
        try:
            with _silence():
                return self._run_attempt(method, way)
        except ImportError as error:
            of_torch = (error.name or "").startswith("torch.")
            if not of_torch:
                return ExportResult(self._report_failure(method, way, error))
            return ExportResult(_report(method, way, "not-tried", detail=_CANNOT_IMPORT))
        except BaseException as error:  # noqa: BLE001 - submitted code: anything may come out, and is then data
            return ExportResult(self._report_failure(method, way, error))

    def _run_attempt(self, method: str, way: ExportWay) -> ExportResult:
        # torch 2.7 asks for a directory named after the user, who has no name in the jail: any that exists will do.
        environ.setdefault("TORCHINDUCTOR_CACHE_DIR", sep)
        with _without_remote_modules():
            from torch._export.converter import TS2EPConverter  # takes 0.3 s, and most trace requests don't need it

        call = self._calls[method]
        match way:
            case "direct":
                program, (args, kwargs) = self._export_direct(call), _eager_arguments(call)
            case "trace-then-export":
                program, (args, kwargs) = self._export_trace(call), (call.clone().artifact_args, {})
            case "source-to-source":
                archived = torch.jit.load(io.BytesIO(self._archive))
                program = TS2EPConverter(archived, call.clone().artifact_args).convert()
                args, kwargs = call.clone().artifact_args, {}
        seed_all(self._seed)
        with torch.no_grad():
            answer = program.module()(*args, **kwargs)
        answer = returned.open_containers(answer) if way == "direct" else call.restore_outputs(answer)
        difference = compare(self._outputs[method], answer, self._tolerance, sides=self._sides).difference
        if difference is not None:
            return ExportResult(_report(method, way, "differs", detail=f"{difference.leaf}: {difference.what}"))
        if way != "direct":
            return ExportResult(_report(method, way, "succeeded", detail=self._describe_kept()))
        return _save(method, program)

    def _export_direct(self, call: Call) -> Any:
        module = self._model.copy_module()
        method = getattr(module, call.function)
        if call.function != "forward" or not isinstance(method, FunctionType | MethodType):
            module = _Method(module, method)
        args, kwargs = _eager_arguments(call)
        return torch.export.export(module, args, kwargs, strict=False)

    def _export_trace(self, call: Call) -> Any:
        # Optimised code reads one-element tensors as numbers, and torch.export's tensors have no values.
        with torch.jit.optimized_execution(False):  # type: ignore[attr-defined]
            return torch.export.export(
                _TracedMethod(self._traced, call.method), call.clone().artifact_args, strict=False
            )

    def _report_failure(self, method: str, way: ExportWay, error: BaseException) -> ExportAttempt:
        name = type(error).__name__[:ERROR_MAX_CHARACTERS]
        line = _line_of(error) or self._line_of_node(method, error)
        return _report(method, way, "failed", error=name, detail=_error_words(error), line=line)

    def _line_of_node(self, method: str, error: BaseException) -> user_lines.Line | None:
        """Return the line of the first node of the kind that torch could not translate: torch names only the kind."""
        untranslated = _UNTRANSLATED.search(user_lines.full_error_text(error))
        if untranslated is None:
            return None
        nodes = script_graphs.nodes(script_graphs.methods(self._traced)[method].inlined_graph)
        return next((script_graphs.line_of(node) for node in nodes if node.kind() == untranslated[1]), None)

    def _describe_kept(self) -> str | None:
        if not self._warned:
            return None
        places = list(dict.fromkeys(f"{line.file}:{line.line}" for line in self._warned))
        return _KEEPS.format(places=", ".join(places[:5]))


class _Method(torch.nn.Module):
    """A method, or a callable object, as a module's forward: torch.export takes nothing else."""

    def __init__(self, owner: torch.nn.Module, method: Callable[..., Any]) -> None:
        super().__init__()
        self.owner = owner  # so that this module has the owner's parameters

        @wraps(method)  # torch.export reads the names of its parameters
        def forward(*args: Any, **kwargs: Any) -> Any:
            return method(*args, **kwargs)

        self.__dict__["forward"] = forward


class _TracedMethod(torch.nn.Module):
    """A traced method as the forward of an ordinary module: torch.export refuses ScriptModules."""

    def __init__(self, owner: torch.nn.Module, method: str) -> None:
        super().__init__()
        self.owner = owner
        self._method = method

    def forward(self, *args: Any) -> Any:
        return getattr(self.owner, self._method)(*args)


def _eager_arguments(call: Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return copies of the eager model's positional and keyword arguments, because it may write into them."""
    cloned = call.clone()
    args, kwargs = cloned.split_arguments(cloned.arguments)
    return tuple(args), kwargs


def _save(method: str, program: Any) -> ExportResult:
    """Return a successful outcome with the program's archive, or without one that cannot be saved or is too large."""
    buffer = io.BytesIO()
    try:
        torch.export.save(program, buffer)
    except Exception as error:  # noqa: BLE001 - submitted code: its objects may raise anything
        detail = f"it cannot be saved: {type(error).__name__}: {_error_words(error)}"
        return ExportResult(_report(method, "direct", "succeeded", detail=detail))
    if (byte_size := buffer.tell()) > EXPORTED_MAX_BYTES:
        detail = f"it is too large to be kept: it has {byte_size} bytes, and at most {EXPORTED_MAX_BYTES} are kept"
        return ExportResult(_report(method, "direct", "succeeded", detail=detail))
    return ExportResult(_report(method, "direct", "succeeded"), buffer.getvalue())


def _report(
    method: str,
    way: ExportWay,
    outcome: ExportOutcome,
    *,
    error: str | None = None,
    detail: str | None = None,
    line: user_lines.Line | None = None,
) -> ExportAttempt:
    return ExportAttempt(
        method=method,
        way=way,
        outcome=outcome,
        error=error,
        detail=None if detail is None else detail[:DETAIL_MAX_CHARACTERS],
        file=line.file[-PLACE_MAX_CHARACTERS:] if line else None,
        line=line.line if line else None,
        source=line.source[:PLACE_MAX_CHARACTERS] if line else None,
    )


def _error_words(error: BaseException) -> str:
    """Return an error's message without torch's advice, this machine's paths and memory addresses."""
    text = user_lines.full_error_text(error)  # not shortened: after a TorchScript error's stack comes its reason
    if _INTERPRETER in text:
        text = text.rpartition("\nRuntimeError: ")[2]
    text = _ADVICE.split(text)[0].strip()
    text = _PACKAGES.sub(r"\1", text).replace(sysconfig.get_path("stdlib") + sep, "")
    return _ADDRESS.sub("0x…", _DIRECTORIES.sub("", text))


def _line_of(error: BaseException) -> user_lines.Line | None:
    """Return the user's line that raised, or that made the node at which TorchScript failed."""
    line = user_lines.line_of_error(error)
    if line is not None and not line.file.startswith(_ARITHMETIC):
        return line
    places = _NODE_PLACE.findall(user_lines.full_error_text(error))
    return next(
        (user_lines.line_at(file, int(number)) for file, number in places if file in user_lines.submitted), None
    )


@contextmanager
def _without_remote_modules() -> Iterator[None]:
    """Replace a module that writes a file when torch 2.7 imports it, because in the jail nothing can be written."""
    if _REMOTE_MODULES in sys.modules:
        yield
        return
    sys.modules[_REMOTE_MODULES] = stand_in = ModuleType(_REMOTE_MODULES)
    stand_in.__dict__["instantiate_non_scriptable_remote_module_template"] = lambda: None
    try:
        yield
    finally:
        del sys.modules[_REMOTE_MODULES]


@contextmanager
def _silence() -> Iterator[None]:
    """Hide output: torch prints graphs that it cannot export, and the model prints again what it printed before."""
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stdout(_Nowhere()), redirect_stderr(_Nowhere()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)


class _Nowhere(io.TextIOBase):
    """A stream that drops its text, like /dev/null, which the jail may hide."""

    def write(self, text: str) -> int:
        return len(text)
