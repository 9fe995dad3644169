"""Export: torch.export tried in the ways of torch.jit.trace's own report. Whatever goes wrong there is data.

The only caller of torch.export. It leaves its traces in the process, so it comes last, and on copies.
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
from tracehouse.eager.model import Model
from tracehouse.eager.source import seed_all
from tracehouse.introspection import script_graphs, user_lines
from tracehouse.torch_values.compare import compare
from tracehouse.torchscript.trace import TraceResult

_CANNOT_IMPORT = (
    "not all of torch.export can be imported here: where submitted code has no files at all, as in the sandbox's tier "
    "seccomp, let the file that PRELOAD names do such an export once"
)
_FORWARD_ALONE = "torch translates a module's forward alone"
_KEEPS = "torch warned of what the trace keeps of its example, at {places}: the exported program keeps it too"
# torch's advice on calls that are made here and not by the user, and the line as torch takes it to be.
_ADVICE = re.compile(r"\n\s*(?:The error above occurred when|For more information, run with TORCH_LOGS|Caused by: \()")
_PACKAGES = re.compile(r"(?:/[^\s:'\"(),]*)?/(?:site|dist)-packages/")
_DIRECTORIES = re.compile(r"(?<![\w.])/(?:[^\s/:'\"(),]+/)+(?=[^\s/:'\"(),]+)")
_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b")
# As TorchScript says where a node comes from, and what its interpreter puts before the error itself.
_NODE_PLACE = re.compile(r"(?:# |File \")([^\s\":]+)(?:\", line |:)(\d+)")
_INTERPRETER = "failed in the TorchScript interpreter"
_UNTRANSLATED = re.compile(r"failed for node (\S+)")
_REMOTE_MODULES = "torch.distributed.nn.jit.instantiator"
# torch computes shapes by these: they are nobody's model.
_ARITHMETIC = tuple(f"{package}/" for package in ("sympy", "mpmath", "numpy"))


@dataclass(frozen=True)
class Exported:
    """What came of an attempt; `program` is what torch.export.save writes, where the program agrees with eager."""

    attempt: ExportAttempt
    program: bytes | None = None


class Export:
    """`outputs` are what eager answers to the calls; where an archive was uploaded, what that answers."""

    def __init__(
        self,
        model: Model,
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
        # Not the archive for both: what it is loaded with are no parameters, which torch.export asks for.
        self._traced = traced.module
        self._archive = traced.archive
        self._warned = [warned.line for warned in traced.warnings if warned.line is not None]
        self._tolerance = tolerance
        self._seed = seed

    def run_attempts(self) -> Iterator[Exported]:
        """Each as it was planned, one after the other, the program of one method alone with it."""
        for method, way in plan_attempts(self._calls, self._form):
            tried = self._try_attempt(method, way)
            yield tried if method == method_to_keep(self._calls) else replace(tried, program=None)

    def _try_attempt(self, method: str, way: ExportWay) -> Exported:
        """Raises nothing that submitted code or torch raises."""
        if way == "source-to-source" and method != "forward":
            return Exported(_report(method, way, "not-tried", detail=_FORWARD_ALONE))
        try:
            with _silence():
                return self._run_attempt(method, way)
        except ImportError as error:
            of_torch = (error.name or "").startswith("torch.")
            if not of_torch:
                return Exported(self._report_failure(method, way, error))
            return Exported(_report(method, way, "not-tried", detail=_CANNOT_IMPORT))
        except BaseException as error:  # noqa: BLE001 - submitted code: anything may come out, and is then data
            return Exported(self._report_failure(method, way, error))

    def _run_attempt(self, method: str, way: ExportWay) -> Exported:
        # torch 2.7 wants a directory named after the user, whom the jail does not know: one that is there will do.
        environ.setdefault("TORCHINDUCTOR_CACHE_DIR", sep)
        with _without_remote_modules():
            from torch._export.converter import TS2EPConverter  # 0.3 s, which most trace requests need not pay

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
        difference = compare(self._outputs[method], answer, self._tolerance, sides=self._sides).difference
        if difference is not None:
            return Exported(_report(method, way, "differs", detail=f"{difference.leaf}: {difference.what}"))
        if way != "direct":
            return Exported(_report(method, way, "succeeded", detail=self._describe_kept()))
        return _save(method, program)

    def _export_direct(self, call: Call) -> Any:
        module = self._model.copy_module()
        method = getattr(module, call.function)
        if call.function != "forward" or not isinstance(method, FunctionType | MethodType):
            module = _Method(module, method)
        args, kwargs = _eager_arguments(call)
        return torch.export.export(module, args, kwargs, strict=False)

    def _export_trace(self, call: Call) -> Any:
        # Optimised, it takes tensors of one number for numbers, which torch.export's tensors are not.
        with torch.jit.optimized_execution(False):  # type: ignore[attr-defined]
            return torch.export.export(_Traced(self._traced, call.method), call.clone().artifact_args, strict=False)

    def _report_failure(self, method: str, way: ExportWay, error: BaseException) -> ExportAttempt:
        name = type(error).__name__[:ERROR_MAX_CHARACTERS]
        line = _line_of(error) or self._line_of_node(method, error)
        return _report(method, way, "failed", error=name, detail=_error_words(error), line=line)

    def _line_of_node(self, method: str, error: BaseException) -> user_lines.Line | None:
        """Of the first such node as could not be translated: torch names its kind alone."""
        untranslated = _UNTRANSLATED.search(user_lines.error_text(error))
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
    """A method, or a callable object, as a module's own forward: torch.export takes no other."""

    def __init__(self, owner: torch.nn.Module, method: Callable[..., Any]) -> None:
        super().__init__()
        self.owner = owner  # so that its parameters are this one's

        @wraps(method)  # for the names of its parameters
        def forward(*args: Any, **kwargs: Any) -> Any:
            return method(*args, **kwargs)

        self.__dict__["forward"] = forward


class _Traced(torch.nn.Module):
    """A traced method as an ordinary module's: torch.export refuses ScriptModules."""

    def __init__(self, owner: torch.nn.Module, method: str) -> None:
        super().__init__()
        self.owner = owner
        self._method = method

    def forward(self, *args: Any) -> Any:
        return getattr(self.owner, self._method)(*args)


def _eager_arguments(call: Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What eager is called with, for a callee that may write into it."""
    cloned = call.clone()
    args, kwargs = cloned.split_arguments(cloned.arguments)
    return tuple(args), kwargs


def _save(method: str, program: Any) -> Exported:
    """What it was exported to be kept as. A program of objects that torch cannot write is one all the same."""
    buffer = io.BytesIO()
    try:
        torch.export.save(program, buffer)
    except Exception as error:  # noqa: BLE001 - of submitted code's objects: anything may come out
        detail = f"it cannot be saved: {type(error).__name__}: {_error_words(error)}"
        return Exported(_report(method, "direct", "succeeded", detail=detail))
    if (byte_size := buffer.tell()) > EXPORTED_MAX_BYTES:
        detail = f"it cannot be saved: it has {byte_size} bytes, of at most {EXPORTED_MAX_BYTES}"
        return Exported(_report(method, "direct", "succeeded", detail=detail))
    return Exported(_report(method, "direct", "succeeded"), buffer.getvalue())


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
    """What it says, without torch's advice, this machine's paths, and numbers that change with each run."""
    text = user_lines.error_text(error)
    if _INTERPRETER in text:
        text = text.rpartition("\nRuntimeError: ")[2]
    text = _ADVICE.split(text)[0].strip()
    text = _PACKAGES.sub("", text).replace(sysconfig.get_path("stdlib") + sep, "")
    return _ADDRESS.sub("0x…", _DIRECTORIES.sub("", text))


def _line_of(error: BaseException) -> user_lines.Line | None:
    """The user's line that raised; of a node that could not be translated, the line that made it."""
    line = user_lines.line_of_error(error)
    if line is not None and not line.file.startswith(_ARITHMETIC):
        return line
    places = _NODE_PLACE.findall(user_lines.error_text(error))
    return next(
        (user_lines.line_at(file, int(number)) for file, number in places if file in user_lines.submitted), None
    )


@contextmanager
def _without_remote_modules() -> Iterator[None]:
    """torch 2.7 writes a file as it imports this, for remote modules, and in the jail nothing can be written."""
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
    """torch prints the graphs that it could not export, and the model says once more what it said before."""
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stdout(_Nowhere()), redirect_stderr(_Nowhere()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)


class _Nowhere(io.TextIOBase):
    """/dev/null, which may be out of reach."""

    def write(self, text: str) -> int:
        return len(text)
