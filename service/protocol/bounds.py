"""Bounds: the size of what a child may report of a failure or a check, so that it can be stored, read and listed.

A child cuts what it reports; its parent refuses a message that cutting would still change.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import orjson
from pydantic import JsonValue, ValidationError

from tracehouse.byte_units import MIB
from tracehouse.errors import Failure
from tracehouse.findings.finding import Finding
from tracehouse.findings.kinds import Kind
from tracehouse.findings.trace_check import Divergence, Layer, TorchCheck, TraceCheck, TracedNode
from tracehouse.frozen import Frozen
from tracehouse.tensors.json_text import levels

# pydantic reads JSON back that nests 200 levels deep, and a manifest or a reply wraps it in a few more.
MESSAGE_DEPTH_MAX = 100
# A model of ten thousand submodules has some 150,000, each name and number counted.
MESSAGE_MEMBERS_MAX = 200_000
MESSAGE_MAX_BYTES = 4 * MIB
FACTS_DEPTH_MAX = 20
FACTS_MAX_BYTES = 16 * 1024
TEXT_MAX_CHARACTERS = 5000
TORCH_MESSAGE_MAX_CHARACTERS = 64 * 1024  # such a message has two graphs, line by line
TORCH_ITEMS_MAX = 500
TORCH_ITEMS_MAX_BYTES = 64 * 1024
FINDINGS_MAX = 1000
FINDINGS_MAX_BYTES = 256 * 1024
COMPARISONS_MAX = 5000
LAYERS_MAX = 200  # six for each of 32 methods
LEFT_OUT_MAX = 50
LEFT_OUT_MAX_CHARACTERS = 500
# A verification holds the inputs of all calls of a request at once, and two processes' answers to each.
INPUTS_MAX_BYTES = 256 * MIB
ANSWER_MAX_BYTES = 256 * MIB

_LINES_MAX = 2**31
_ERRORS_IN_TEXT_MAX = 20
_CUT = " ..."
# Characters of a text and items of a container: facts are cut to the first pair that makes them small enough.
_FACTS_STEPS = ((TEXT_MAX_CHARACTERS, 1000), (1000, 100), (200, 20), (50, 5))

Message = TypeVar("Message", bound=Frozen)


def cut_failure(failure: Failure) -> Failure:
    return Failure(
        slug=_text(failure.slug, TEXT_MAX_CHARACTERS),
        detail=_text(failure.detail, TEXT_MAX_CHARACTERS),
        facts=_facts(failure.facts),
    )


def cut_check(check: TraceCheck) -> TraceCheck:
    return TraceCheck(
        verdict=check.verdict,
        tolerance=check.tolerance,
        comparisons=[_cut_texts(one) for one in check.comparisons[:COMPARISONS_MAX]],
        findings=_findings(check.findings),
        torch=_torch_check(check.torch),
        layers=[cut_layer(one) for one in check.layers[:LAYERS_MAX]],
        budget_s=check.budget_s,
        budget=check.budget,
        samples=check.samples,
        memory=check.memory,
    )


def cut_layer(layer: Layer) -> Layer:
    left_out = [_text(one, LEFT_OUT_MAX_CHARACTERS) for one in layer.left_out[:LEFT_OUT_MAX]]
    return _cut_texts(layer, summary=_text(layer.summary, LEFT_OUT_MAX_CHARACTERS), left_out=left_out)


def excess_of(message: JsonValue) -> str | None:
    """Return how a message is too large to be validated; None if it is not."""
    members = 0
    for depth, (objects, lists) in enumerate(levels(message)):
        if depth > MESSAGE_DEPTH_MAX:
            return f"it nests deeper than {MESSAGE_DEPTH_MAX} levels"
        members += sum(map(len, objects)) + sum(map(len, lists))
        if members > MESSAGE_MEMBERS_MAX:
            return f"it has more than {MESSAGE_MEMBERS_MAX} members"
    return None


def text_of(error: Exception) -> str:
    """Return the error's text without pydantic's list if that is long: it repeats parts of the message."""
    if isinstance(error, ValidationError) and error.error_count() > _ERRORS_IN_TEXT_MAX:
        return f"{error.error_count()} errors in {error.title}"
    return str(error)


def _torch_check(check: TorchCheck) -> TorchCheck:
    diverging = check.first_diverging
    return _cut_texts(
        check,
        message=_torch_text(check.message),
        graph_diff=_torch_text(check.graph_diff),
        first_diverging=diverging and Divergence(trace=_node(diverging.trace), check=_node(diverging.check)),
        constants=_items(_cut_texts(one, node=_node(one.node)) for one in check.constants[:TORCH_ITEMS_MAX]),
        nondeterministic=_items(_node(one) for one in check.nondeterministic[:TORCH_ITEMS_MAX]),
        outputs=_items(_cut_texts(one, number=_count(one.number)) for one in check.outputs[:TORCH_ITEMS_MAX]),
        not_compared=_items(_cut_texts(one) for one in check.not_compared[:TORCH_ITEMS_MAX]),
        warnings=_items(_cut_texts(one, line=_line(one.line)) for one in check.warnings[:TORCH_ITEMS_MAX]),
    )


def _torch_text(text: str | None) -> str | None:
    return None if text is None else _text(text, TORCH_MESSAGE_MAX_CHARACTERS)


def _node(node: TracedNode) -> TracedNode:
    return _cut_texts(node, line=_line(node.line))


def _items(items: Iterable[Message]) -> list[Message]:
    """Return the first items, as many as there is room for."""
    kept: list[Message] = []
    left = TORCH_ITEMS_MAX_BYTES
    for one in items:
        left -= len(one.model_dump_json().encode())
        if left < 0:
            break
        kept.append(one)
    return kept


def _line(number: int | None) -> int | None:
    return number if number is not None and 0 <= number < _LINES_MAX else None


def _count(number: int) -> int:
    return min(max(number, 0), _LINES_MAX)


def _findings(findings: list[Finding]) -> list[Finding]:
    """Cut findings. The tracer's warnings are dropped first: a model's loop may give thousands."""
    by_weight = sorted(range(len(findings)), key=lambda place: findings[place].kind == Kind.TRACER_WARNING)
    kept: dict[int, Finding] = {}
    left = FINDINGS_MAX_BYTES
    for place in by_weight[:FINDINGS_MAX]:
        whole = findings[place]
        finding = _cut_texts(whole, line=_line(whole.line), evidence=_facts(whole.evidence))
        left -= len(finding.model_dump_json().encode())
        if left < 0:
            break
        kept[place] = finding
    return [kept[place] for place in sorted(kept)]


def _cut_texts(cut: Message, /, **others: Any) -> Message:
    fields = {
        name: _text(value, TEXT_MAX_CHARACTERS) if isinstance(value, str) else value
        for name, value in dict(cut).items()
    }
    return type(cut)(**(fields | others))


def _facts(facts: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    for characters, items in _FACTS_STEPS:
        cut: dict[str, JsonValue] = _mapping(facts, characters, items, FACTS_DEPTH_MAX)
        if len(orjson.dumps(cut)) <= FACTS_MAX_BYTES:
            return cut
    return {}


def _value(value: JsonValue, characters: int, items: int, depth: int) -> JsonValue:
    match value:
        case str():
            return _text(value, characters)
        case list() | dict() if depth == 0:
            return _CUT.strip()
        case list():
            return [_value(item, characters, items, depth - 1) for item in value[:items]]
        case dict():
            return _mapping(value, characters, items, depth)
    return value


def _mapping(value: Mapping[str, JsonValue], characters: int, items: int, depth: int) -> dict[str, JsonValue]:
    kept = list(value.items())[:items]
    return {_text(key, characters): _value(item, characters, items, depth - 1) for key, item in kept}


def _text(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - len(_CUT)] + _CUT
