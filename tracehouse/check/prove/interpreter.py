"""The interpreter: it runs the artifact's graph node by node, on tensors without values whose sizes are symbols."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from tracehouse.check.prove.node_functions import GraphError, node_function, to_bool, to_plain_values
from tracehouse.check.prove.recorder import Recorder
from tracehouse.check.prove.scalar_tensors import Unsupported
from tracehouse.check.prove.size_operators import run_node
from tracehouse.introspection import script_graphs, user_lines

_TURNS_MAX = 100_000  # of one prim::Loop
_USERS_MAX = 6  # how far a line is looked for beyond a node that has none


@dataclass(frozen=True)
class _Step:
    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    node: script_graphs.Node
    run: Callable[..., Any]
    blocks: tuple["_Block", ...] = ()


@dataclass(frozen=True)
class _Block:
    parameters: tuple[int, ...]
    steps: tuple[_Step, ...]
    results: tuple[int, ...]


class Program:
    """A method of an artifact, whose graph is read once and can be run many times."""

    def __init__(self, artifact: torch.jit.ScriptModule, method: str) -> None:
        """Read the method's graph. Raises Unsupported if a constant in it has no value in Python."""
        self._artifact = artifact
        self._compiled = CompiledProgram(script_graphs.methods(artifact)[method])
        self.schema = self._compiled.schema

    def run(self, arguments: Mapping[str, Any], recorder: Recorder) -> Any:
        """Return the method's outputs for these arguments, by name. Raises what `CompiledProgram.run` raises."""
        return self._compiled.run([self._artifact, *self._bind(arguments)], recorder)

    def _bind(self, arguments: Mapping[str, Any]) -> list[Any]:
        """Return the arguments in the order of the schema. The parameters of a trace may have other names."""
        parameters = self.schema.arguments[1:]
        if len(parameters) == len(arguments) and not all(argument.name in arguments for argument in parameters):
            return [*arguments.values()]
        bound = []
        for parameter in parameters:
            if parameter.name in arguments:
                bound.append(arguments[parameter.name])
            elif parameter.has_default_value():
                bound.append(parameter.default_value)
            else:
                raise Unsupported(f"its parameter {parameter.name!r} is given by position")
        return bound


class CompiledProgram:
    """A compiled method or function, whose graph is read once and can be run many times."""

    def __init__(self, compiled: Any) -> None:
        """Read the graph. Raises Unsupported if a constant in it has no value in Python."""
        self.schema = compiled.schema
        self._graph = compiled.inlined_graph  # nodes are valid only as long as their graph lives
        torch._C._jit_pass_inline(self._graph)
        torch._C._jit_pass_dce(self._graph)
        self._slots: dict[str, int] = {}  # each value's place among the values of a run
        self._constants: dict[int, Any] = {}
        self._main = self._read_block(self._graph, self._graph.inputs(), self._graph.return_node())

    def run(self, inputs: Sequence[Any], recorder: Recorder) -> Any:
        """Return the outputs for these inputs, of which a method's owner is the first.

        Raises Unsupported if the graph has a node that is not run here, GraphError if a node refuses these sizes, and
        whatever the recorder raises.
        """
        values = dict(self._constants)
        if len(inputs) != len(self._main.parameters):
            raise Unsupported("it takes other arguments than it was given")
        values.update(zip(self._main.parameters, inputs, strict=True))
        results = self._run_block(self._main, values, recorder)
        return to_plain_values(results[0] if len(results) == 1 else tuple(results))

    def _run_block(self, block: _Block, values: dict[int, Any], recorder: Recorder) -> list[Any]:
        for step in block.steps:
            recorder.position = step.node
            inputs = [values[slot] for slot in step.inputs]
            outputs = self._run_step(step, inputs, values, recorder)
            recorder.trail.end_step(inputs, outputs)
            if len(step.outputs) == 1:
                values[step.outputs[0]] = outputs
            elif step.outputs:
                if len(outputs) != len(step.outputs):
                    raise GraphError(f"{step.kind} of {len(step.outputs)} values has {len(outputs)}")
                values.update(zip(step.outputs, outputs, strict=True))
        return [values[slot] for slot in block.results]

    def _run_step(self, step: _Step, inputs: list[Any], values: dict[int, Any], recorder: Recorder) -> Any:
        match step.kind:
            case "prim::If":
                outputs = self._run_block(step.blocks[0 if to_bool(inputs[0]) else 1], values, recorder)
                return outputs[0] if len(step.outputs) == 1 else outputs
            case "prim::Loop":
                outputs = self._run_loop(step.blocks[0], inputs, values, recorder)
                return outputs[0] if len(step.outputs) == 1 else outputs
        recorder.widths.follow_node(step.kind, inputs)
        result = run_node(step.kind, inputs, recorder.record_size_operator)
        return step.run(*inputs) if result is None else result

    def _run_loop(self, body: _Block, inputs: list[Any], values: dict[int, Any], recorder: Recorder) -> list[Any]:
        turns_max, goes_on, *carried = inputs
        turn = 0
        while turn < turns_max and to_bool(goes_on):
            if turn > _TURNS_MAX:
                raise Unsupported("prim::Loop")
            values.update(zip(body.parameters, [turn, *carried], strict=True))
            goes_on, *carried = self._run_block(body, values, recorder)
            turn += 1
        return carried

    def _read_block(self, block: Any, parameters: Any, return_node: Any) -> _Block:
        slots = tuple(self._slot(value) for value in parameters)
        steps = tuple(self._read_steps(block))
        return _Block(slots, steps, tuple(self._slot(value) for value in script_graphs.inputs(return_node)))

    def _read_steps(self, block: Any) -> Iterator[_Step]:
        for node in block.nodes():
            kind = node.kind()
            outputs = tuple(self._slot(value) for value in script_graphs.outputs(node))
            if kind == "prim::Constant":
                self._constants[outputs[0]] = _constant(node)
                continue
            inputs = tuple(self._slot(value) for value in script_graphs.inputs(node))
            blocks = tuple(
                self._read_block(inner, inner.paramNode().outputs(), inner.returnNode())
                for inner in script_graphs.blocks(node)
            )
            yield _Step(kind, inputs, outputs, node, node_function(kind, node), blocks)

    def _slot(self, value: Any) -> int:
        return self._slots.setdefault(value.debugName(), len(self._slots))


def line_of(node: Any) -> user_lines.Line | None:
    """Return the node's own line; if it has none, that of the nearest node that uses its outputs."""
    for _ in range(_USERS_MAX):
        if node is None:
            return None
        if (line := script_graphs.line_of(node)) is not None:
            return line
        users = [use.user for output in script_graphs.outputs(node) for use in output.uses()]
        node = users[0] if users else None
    return None


def _constant(node: script_graphs.Node) -> Any:
    try:
        return node.output().toIValue()
    except RuntimeError as error:
        raise Unsupported("a constant that Python cannot have") from error
