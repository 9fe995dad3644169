"""torch's own check of a trace: what it says, made into data. The only place that reads its words.

It traces once more for each of the inputs, under no_grad, and compares what it prints of the two graphs, the first
tensor among their constants that differs, and those outputs that are tensors at the top. It raises a TracingCheckError,
warns, or fails where it cannot go on.
"""

import difflib
import re
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from torch.jit._trace import TracingCheckError

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

# By what a warning says, the first that fits.
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
# What the check says where the artifact or the Python function raised, so that it compared no outputs.
_RAISED = "encountered an exception while running the "

# The only place where torch keeps the name of the method that it is at.
_TRACE_MODULE = torch.jit.trace_module.__code__

_HEADING = re.compile(r"\t([A-Z][A-Za-z ]+):(?: \t?(.*))?")
_OPERATOR = re.compile(r" = (\^?[\w:.]+)")
_VALUE_NAME = re.compile(r"%[\w.]+")
_OUTPUT_DIFFERS = re.compile(
    r"Output nr (\d+)\. of the traced function does not match the corresponding output of the "
    r"(Python function|repeated trace)\. Detailed error:\n(.*)",
    re.DOTALL,
)


@dataclass(frozen=True)
class RecordedWarning:
    """A TracerWarning: the user's line that caused it, and the method that torch was recording or checking."""

    message: str
    line: user_lines.Line | None
    method: str | None = None

    @property
    def kind(self) -> str:
        return next((kind for words, kind in _KINDS if words in self.message), "other")

    @property
    def reads_value(self) -> bool:
        """Whether a value of a tensor was read in Python, which the trace then keeps."""
        return reads_value(self.kind)

    @property
    def is_from_check(self) -> bool:
        """Whether it says what the check found, not what the tracer could not record."""
        return self.kind in _OF_CHECK


def report_not_run(warned: Sequence[RecordedWarning]) -> TorchCheck:
    return TorchCheck(ran=False, warnings=_warnings(warned))


def report(
    module: torch.jit.ScriptModule,
    outputs: Mapping[str, Any],
    warned: Sequence[RecordedWarning],
    failed: Exception | None,
    error: str | None,
) -> TorchCheck:
    """What the check said of a trace: `outputs` are eager's by method, `failed` is what it raised.

    With an `error`, which says why its word does not count, it has neither passed nor failed.
    """
    refused = isinstance(failed, TracingCheckError)
    if failed is not None and not refused and error is None:
        error = f"torch's check could not be brought to its end: it raised {type(failed).__name__}; ours decides"
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
    """The method that torch is recording, or is checking the outputs of, in a frame or in one that called it."""
    while frame is not None:
        if frame.f_code is _TRACE_MODULE:
            return _method_in(frame)
        frame = frame.f_back
    return None


def find_checked_method(error: BaseException) -> str | None:
    """The method that was checked: the check records all of them once more."""
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    return next((_method_in(frame) for frame in frames if frame.f_code is _TRACE_MODULE), None)


def line_of_divergence(graph_diff: str) -> user_lines.Line | None:
    """Where two graphs part, whatever their values are called.

    The operators that torch blames are often those that fetch a submodule, whose class it names anew in each trace.
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
        return user_lines.full_error_text(failed)  # it shows two graphs, and then where they part
    return "" if failed is None else f"{type(failed).__name__}: {user_lines.error_text(failed)}"


def _warnings(warned: Sequence[RecordedWarning]) -> list[TracerWarning]:
    return [
        TracerWarning(method=one.method, kind=one.kind, message=one.message, **user_lines.line_facts(one.line))
        for one in warned
    ]


def _parse_comparison(text: str) -> dict[str, Any]:
    """Of a TracingCheckError: how the graphs differ, where they part, and the constant that differs."""
    said = _parse_sections(text)
    found: dict[str, Any] = {}
    if "Graph diff" in said:
        found["graph_diff"] = paths.without_paths_in_stacks(said["Graph diff"])
    if "Node diff" in said:
        diff = said["Node diff"].splitlines(keepends=True)
        trace, check = ("".join(difflib.restore(diff, which)) for which in (1, 2))
        found["first_diverging"] = Divergence(
            trace=_node(trace, said.get("Trace source location", "")),
            check=_node(check, said.get("Check source location", "")),
        )
    if "Node" in said:
        constant = _node(said["Node"], said.get("Source Location", ""))
        found["constants"] = [DifferingConstant(node=constant, difference=said.get("Comparison exception", "").strip())]
    return found


def _parse_sections(text: str) -> dict[str, str]:
    """What stands under each heading. Headings are indented once, and what they head is twice."""
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
    return {name: "\n".join(held) for name, held in sections.items()}


def _node(text: str, stack: str) -> TracedNode:
    operator = _OPERATOR.search(text)
    return TracedNode(
        operator=operator[1] if operator else "",
        text=paths.without_paths(text).strip(),
        **user_lines.line_facts(user_lines.line_of_stack(stack)),
    )


def _nondeterministic_nodes(module: torch.jit.ScriptModule, methods: set[str | None]) -> list[TracedNode]:
    """Of the methods whose outputs differ. torch lists only those that stand in no submodule."""
    return [
        _node(str(node), node.sourceRange())
        for name, method in script_graphs.methods(module).items()
        if name in methods
        for node in script_graphs.nodes(method.inlined_graph)
        if node.isNondeterministic()
    ]


def _parse_output_difference(warned: RecordedWarning, outputs: Mapping[str, Any]) -> OutputDifference | None:
    said = _OUTPUT_DIFFERS.match(warned.message)
    if said is None:
        return None
    number = int(said[1])
    names = _compared_names(outputs.get(warned.method or ""))
    return OutputDifference(
        method=warned.method,
        number=number,
        output=names[number - 1] if number <= len(names) else None,
        other=said[2],
        difference=said[3],
    )


def _compared_names(output: Any) -> list[str]:
    """The names of those leaves that the check compares, in its order."""
    if isinstance(output, tuple):
        return [f"output.{place}" for place, item in enumerate(output) if isinstance(item, torch.Tensor)]
    return ["output"] if isinstance(output, torch.Tensor) else []


def _find_uncompared(outputs: Mapping[str, Any], stopped_at: str | None, *, reached: bool) -> list[OutputRef]:
    """`reached`: whether the outputs of the method that it stopped at were compared still."""
    left: list[OutputRef] = []
    stopped = False
    for method, output in outputs.items():
        stopped = stopped or (method == stopped_at and not reached)
        looked_at = [] if stopped else _compared_names(output)
        left += [
            OutputRef(method=method, output=name)
            for name in structure.tensors(output, "output")
            if name not in looked_at
        ]
        stopped = stopped or method == stopped_at
    return left
