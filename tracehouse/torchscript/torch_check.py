"""torch's own check of a trace, parsed into data. Only this file reads the text of its messages.

For each input, torch's check traces once more, under no_grad. It compares the printed graphs, their tensor constants up
to the first that differs, and the outputs that are tensors at the top level. It raises a TracingCheckError, warns, or
fails with another error if it cannot go on.
"""

import difflib
import inspect
import re
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from torch.jit._trace import TracingCheckError, _check_trace

from tracehouse.contract.structure import ComplexLeaf, TensorLeaf, items_of
from tracehouse.eager.call import Call
from tracehouse.findings.trace_check import (
    DifferingConstant,
    Divergence,
    OutputDifference,
    OutputRef,
    TorchCheck,
    TracedNode,
    TracerWarning,
    reads_value,
)
from tracehouse.introspection import paths, script_graphs, user_lines
from tracehouse.torch_values import structure

# Words in the text of a warning, and the kind that they mean. The first words that are in the text decide.
_KINDS = [
    *((f"to a Python {name}", f"tensor-to-python-{name}") for name in (
        "boolean", "integer", "float", "complex", "number", "index", "list",
    )),
    ("to a NumPy array", "tensor-to-numpy"),
    ("Iterating over a tensor", "iterating"),
    ("Using len to get tensor shape", "len"),
    ("are registered as constants", "constant-registered"),
    ("in-place operator", "in-place"),
    ("can't be represented in the JIT", "resized"),
    ("at the output of the tracer", "container-output"),
    ("Output nr ", "output-differs"),
    ("nondeterministic nodes", "nondeterministic-nodes"),
]  # fmt: skip
_OF_CHECK = frozenset({"output-differs", "nondeterministic-nodes"})
# What the check says if the artifact or the Python function raised. Then it compared no outputs.
_RAISED = "encountered an exception while running the "

# torch keeps the name of the method that it traces only in a local variable of this function.
_TRACE_MODULE = torch.jit.trace_module.__code__
# The function that traces once more for the check.
_CHECK_TRACE = inspect.unwrap(_check_trace).__code__

_HEADING = re.compile(r"\t([A-Z][A-Za-z ]+):(?: \t?(.*))?")
_OPERATOR = re.compile(r" = (\^?[\w:.]+)")
_VALUE_NAME = re.compile(r"%[\w.]+")
_OUTPUT_DIFFERS = re.compile(
    r"Output nr (\d+)\. of the traced function does not match the corresponding output of the "
    r"(Python function|repeated trace)\. Detailed error:\n(.*)",
    re.DOTALL,
)


@dataclass(frozen=True)
class OutputNames:
    """The names of all tensors that a method returns, and of those that torch's check compares, in its order."""

    every: list[str]
    compared: list[str]


@dataclass(frozen=True)
class RecordedWarning:
    """A TracerWarning, the user's line that caused it, and the method that torch was recording or checking.

    `of_repeat`: torch warned while it traced once more for its check, and not while it recorded the artifact.
    """

    message: str
    line: user_lines.Line | None
    method: str | None = None
    of_repeat: bool = False

    @property
    def kind(self) -> str:
        """The kind of warning, such as `tensor-to-python-boolean`, or `other`."""
        return next((kind for words, kind in _KINDS if words in self.message), "other")

    @property
    def reads_value(self) -> bool:
        """Whether Python read a tensor's value, which the trace then keeps."""
        return reads_value(self.kind)

    @property
    def is_from_check(self) -> bool:
        """Whether the check warned of a difference; otherwise the tracer warned of what it could not record."""
        return self.kind in _OF_CHECK


def report_not_run(warned: Sequence[RecordedWarning]) -> TorchCheck:
    """Return the report of a check that did not run; it has only the tracer's warnings."""
    return TorchCheck(ran=False, warnings=_warnings(warned))


def report(
    module: torch.jit.ScriptModule,
    outputs: Mapping[str, OutputNames],
    warned: Sequence[RecordedWarning],
    failed: Exception | None,
    error: str | None,
) -> TorchCheck:
    """Return what torch's check found.

    `outputs` are the names of the model's outputs by method, and `failed` is what the check raised. `error` says why
    the result does not count: the check then has neither passed nor failed.
    """
    refused = isinstance(failed, TracingCheckError)
    if failed is not None and not refused and error is None:
        error = f"torch's check could not finish: it raised {type(failed).__name__}; our own check decides"
    text = _text_of(failed)
    differing = [one for one in warned if one.is_from_check]
    method = None if failed is None else find_checked_method(failed)
    messages = [*filter(None, [text]), *(one.message for one in differing)]
    return TorchCheck(
        ran=True,
        passed=None if error is not None else not messages,
        error=error,
        message=paths.without_paths_in_stacks("\n".join(messages)) or None,
        method=method,
        **_parse_comparison(text if refused else ""),
        nondeterministic=_nondeterministic_nodes(module, {one.method for one in differing}),
        outputs=[found for one in differing if (found := _parse_output_difference(one, outputs)) is not None],
        not_compared=_find_uncompared(outputs, method, reached=refused and _RAISED not in text),
        warnings=_warnings(warned),
    )


def find_recorded_method(frame: FrameType | None) -> str | None:
    """Return the method that torch is recording or checking, found in a running frame or in one that called it."""
    while frame is not None:
        if frame.f_code is _TRACE_MODULE:
            return _method_in(frame)
        frame = frame.f_back
    return None


def is_in_check(frame: FrameType | None) -> bool:
    """Whether torch's check is running in this frame or in one that called it."""
    while frame is not None:
        if frame.f_code is _CHECK_TRACE:
            return True
        frame = frame.f_back
    return False


def find_checked_method(error: BaseException) -> str | None:
    """Return the method that torch was tracing or checking when it raised.

    The outermost trace has it: the check's own traces record all methods again.
    """
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    return next((_method_in(frame) for frame in frames if frame.f_code is _TRACE_MODULE), None)


def line_of_divergence(graph_diff: str) -> user_lines.Line | None:
    """Return the submitted line where two graphs in torch's diff first differ by more than the names of values.

    The operators that torch names are often those that fetch a submodule, whose class has a new name in each trace.
    """
    diff = graph_diff.splitlines(keepends=True)
    for nodes in zip(difflib.restore(diff, 1), difflib.restore(diff, 2), strict=False):
        if len({_VALUE_NAME.sub("%", node) for node in nodes}) > 1:
            return next((line for node in nodes if (line := user_lines.line_of_comment(node)) is not None), None)
    return None


def _method_in(frame: FrameType) -> str | None:
    name = frame.f_locals.get("method_name")
    return name if isinstance(name, str) else None


def _text_of(failed: Exception | None) -> str:
    if isinstance(failed, TracingCheckError):
        return user_lines.full_error_text(failed)  # not shortened: the difference comes after two graphs
    return "" if failed is None else f"{type(failed).__name__}: {user_lines.error_text(failed)}"


def _warnings(warned: Sequence[RecordedWarning]) -> list[TracerWarning]:
    return [
        TracerWarning(method=one.method, kind=one.kind, message=one.message, **user_lines.line_facts(one.line))
        for one in warned
    ]


def _parse_comparison(text: str) -> dict[str, Any]:
    """Parse a TracingCheckError: how the graphs differ, where they first do, and the constant that differs."""
    sections = _parse_sections(text)
    found: dict[str, Any] = {}
    if "Graph diff" in sections:
        found["graph_diff"] = paths.without_paths_in_stacks(sections["Graph diff"])
    if "Node diff" in sections:
        diff = sections["Node diff"].splitlines(keepends=True)
        trace, check = ("".join(difflib.restore(diff, which)) for which in (1, 2))
        found["first_diverging"] = Divergence(
            trace=_node(trace, sections.get("Trace source location", "")),
            check=_node(check, sections.get("Check source location", "")),
        )
    if "Node" in sections:
        constant = _node(sections["Node"], sections.get("Source Location", ""))
        difference = sections.get("Comparison exception", "").strip()
        found["constants"] = [DifferingConstant(node=constant, difference=difference)]
    return found


def _parse_sections(text: str) -> dict[str, str]:
    """Return the text under each heading. Headings are indented by one tab, their text by two."""
    sections: dict[str, list[str]] = {}
    under: list[str] = []
    for line in text.splitlines():
        if line.startswith("\t\t") or line == "\t":
            under.append(line[2:])
        elif heading := _HEADING.fullmatch(line):
            under = sections.setdefault(heading[1], [])
            if heading[2]:
                under.append(heading[2])
        else:
            under = []
    return {name: "\n".join(lines) for name, lines in sections.items()}


def _node(text: str, stack: str) -> TracedNode:
    operator = _OPERATOR.search(text)
    return TracedNode(
        operator=operator[1] if operator else "",
        text=paths.without_paths(text).strip(),
        **user_lines.line_facts(user_lines.line_of_stack(stack)),
    )


def _nondeterministic_nodes(module: torch.jit.ScriptModule, methods: set[str | None]) -> list[TracedNode]:
    """Return the nondeterministic nodes of these methods. torch's own list leaves out those in submodules."""
    return [
        _node(str(node), node.sourceRange())
        for name, method in script_graphs.methods(module).items()
        if name in methods
        for node in script_graphs.nodes(method.inlined_graph)
        if node.isNondeterministic()
    ]


def _parse_output_difference(warned: RecordedWarning, outputs: Mapping[str, OutputNames]) -> OutputDifference | None:
    match = _OUTPUT_DIFFERS.match(warned.message)
    if match is None:
        return None
    number = int(match[1])
    named = outputs.get(warned.method or "")
    names = [] if named is None else named.compared
    return OutputDifference(
        method=warned.method,
        number=number,
        output=names[number - 1] if number <= len(names) else None,
        other=match[2],
        difference=match[3],
    )


def name_outputs(outputs: Any, call: Call) -> OutputNames:
    """Return the names of what the model returned. torch's check compares the tensors at the top level of a tuple."""
    returned_alone = isinstance(outputs, torch.Tensor)
    is_tuple = isinstance(outputs, tuple) or call.keeps_tensors
    top = [] if returned_alone or not is_tuple else items_of(structure.describe(outputs, "output"))
    compared = [f"output.{key}" for key, item in top if isinstance(item, TensorLeaf | ComplexLeaf)]
    return OutputNames([*structure.tensors(outputs, "output")], ["output"] if returned_alone else compared)


def _find_uncompared(outputs: Mapping[str, OutputNames], stopped_at: str | None, *, reached: bool) -> list[OutputRef]:
    """Return the tensors that torch's check did not compare.

    `reached` says whether the outputs of the method at which the check stopped were still compared.
    """
    left: list[OutputRef] = []
    stopped = False
    for method, output in outputs.items():
        stopped = stopped or (method == stopped_at and not reached)
        compared = [] if stopped else output.compared
        left += [OutputRef(method=method, output=name) for name in output.every if name not in compared]
        stopped = stopped or method == stopped_at
    return left
