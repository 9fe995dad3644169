"""Train mode: nodes of the graphs that behave as in training, because their submodule is in train mode."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from pydantic import JsonValue

from tracehouse.findings import repeatability
from tracehouse.findings.finding import Finding
from tracehouse.introspection import script_graphs, user_lines
from tracehouse.torchscript import scopes

_SHOWN_MAX = 50
_NAMED_MAX = 3
# For each operator, the index of the argument for train mode, and of the argument for the probability to drop a value,
# as in torch's native_functions.yaml. None: it has no such argument.
_DROPOUTS = {
    **dict.fromkeys(
        ("aten::dropout", "aten::feature_dropout", "aten::alpha_dropout", "aten::feature_alpha_dropout"), (2, 1)
    ),
    **{f"{kind}_": (2, 1) for kind in ("aten::dropout", "aten::feature_dropout", "aten::alpha_dropout")},
    **dict.fromkeys(("aten::rrelu", "aten::rrelu_"), (3, None)),
    **dict.fromkeys(("aten::lstm", "aten::gru", "aten::rnn_tanh", "aten::rnn_relu"), (6, 5)),
    "aten::scaled_dot_product_attention": (None, 4),
}
# For each operator, the index of the argument that says whether to use the batch's statistics, and of the running mean,
# which is then updated.
_NORMS = {"aten::batch_norm": (5, 3), "aten::instance_norm": (5, 3)}


@dataclass(frozen=True)
class _TrainingNode:
    """A node of a submodule that is in train mode."""

    method: str
    path: str
    type: str
    operator: str
    line: user_lines.Line | None


def find_train_mode(model: torch.nn.Module, traced: torch.jit.ScriptModule) -> list[Finding]:
    """Return findings for each method that draws random numbers or normalises by the batch in train mode.

    There are none if every submodule is in eval mode.
    """
    parts = dict(model.named_modules(remove_duplicate=False))
    if not any(map(_in_train_mode, parts.values())):
        return []
    known = scopes.Scopes(traced)
    findings: list[Finding] = []
    for name, method in script_graphs.methods(traced).items():
        drawing: dict[tuple[str, str], _TrainingNode] = {}
        updating: dict[tuple[str, str], _TrainingNode] = {}
        for node, place in _place_nodes(known, name, method.inlined_graph):
            part = parts.get(place.scope)
            if part is None or not _in_train_mode(part):
                continue
            line = script_graphs.line_of(node) or place.called_at
            seen = _TrainingNode(name, place.scope, type(part).__name__, node.kind(), line)
            if _draws(node):
                drawing.setdefault((seen.path, seen.operator), seen)
            elif _normalises_by_batch(node):
                updating.setdefault((seen.path, seen.operator), seen)
        findings += [_drawing_finding(list(drawing.values()))] if drawing else []
        findings += [_updating_finding(list(updating.values()))] if updating else []
    return findings


def _in_train_mode(part: torch.nn.Module) -> bool:
    """Whether a module is in train mode; a frozen ScriptModule has no mode."""
    return bool(getattr(part, "training", False))


def _place_nodes(known: scopes.Scopes, method: str, graph: Any) -> Iterator[tuple[script_graphs.Node, scopes.Place]]:
    walk = scopes.InlinedWalk(known, "", method)
    for node in script_graphs.nodes(graph):
        yield node, walk.place(node)


def is_inactive_dropout(node: script_graphs.Node) -> bool:
    """Whether a node is a dropout that certainly drops nothing."""
    return node.kind() in _DROPOUTS and not _draws(node)


def _draws(node: script_graphs.Node) -> bool:
    if node.kind() not in _DROPOUTS:
        return False
    mode, probability = _DROPOUTS[node.kind()]
    return _is_set(node, mode) and _is_set(node, probability)


def _normalises_by_batch(node: script_graphs.Node) -> bool:
    if node.kind() not in _NORMS:
        return False
    mode, running = _NORMS[node.kind()]
    return _is_set(node, mode) and node.inputsAt(running).type().kind() != "NoneType"


def _is_set(node: script_graphs.Node, place: int | None) -> bool:
    """Whether an argument is true or unknown. A scripted method reads the mode from its module, which trains."""
    if place is None or place >= node.inputsSize():
        return True
    value = node.inputsAt(place).toIValue()
    return value is None or bool(value)


def _drawing_finding(seen: list[_TrainingNode]) -> Finding:
    return _finding(
        seen,
        "draws" if len(seen) == 1 else "draw",
        "random numbers at each call, so the same inputs are answered differently each time",
        "call model.eval(), or in a trace request let `training` be false, as it should be for a model that is served",
    )


def _updating_finding(seen: list[_TrainingNode]) -> Finding:
    return _finding(
        seen,
        "normalises" if len(seen) == 1 else "normalise",
        "by the batch at hand, so the answer for one row depends on all the others; and each call changes the running "
        "statistics, which no answer shows and a runner forgets when it ends",
        "call model.eval(), or in a trace request let `training` be false, so that the running statistics are used and "
        "not changed",
    )


def _finding(seen: list[_TrainingNode], does: str, what: str, remedy: str) -> Finding:
    named = ", ".join(f"{one.path or 'the model'} ({one.type})" for one in seen[:_NAMED_MAX])
    more = f" and {len(seen) - _NAMED_MAX} more" if len(seen) > _NAMED_MAX else ""
    line = next((one.line for one in seen if one.line is not None), None)
    modules: list[dict[str, JsonValue]] = [
        {"path": one.path, "type": one.type, "operator": one.operator, "line": one.line.line if one.line else None}
        for one in seen[:_SHOWN_MAX]
    ]
    return repeatability.training_mode(
        seen[0].method, f"{named}{more}", f"{does} {what}", remedy, modules, user_lines.line_facts(line)
    )
