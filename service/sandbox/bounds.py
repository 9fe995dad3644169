"""Bounds: the most that a child may say of a failure or of a check, so that it can be kept, read back and listed.

A child cuts what it says; its parent refuses whatever cutting would still change.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

import orjson
from pydantic import JsonValue, ValidationError

from service.domain.errors import Failure
from service.domain.frozen import Frozen
from service.domain.sizes import MIB
from service.domain.trace_check import Comparison, Finding, TorchCheck, TraceCheck

# pydantic reads JSON back that nests 200 levels deep, and a manifest or a reply wraps it in a few more.
MESSAGE_DEPTH_MAX = 100
# A model of ten thousand submodules has some 150,000, each name and number counted.
MESSAGE_MEMBERS_MAX = 200_000
MESSAGE_MAX_BYTES = 4 * MIB
FACTS_DEPTH_MAX = 20
FACTS_MAX_BYTES = 16 * 1024
TEXT_MAX_CHARACTERS = 5000
TORCH_MESSAGE_MAX_CHARACTERS = 64 * 1024  # it shows two graphs, line by line
FINDINGS_MAX = 1000
FINDINGS_MAX_BYTES = 256 * 1024
COMPARISONS_MAX = 5000
# Of the cases that a tracing child offers to be tried again: the examples' size is no bound on them, but theirs is.
CASES_MAX = 8
CASES_MAX_BYTES = 16 * MIB
CASE_NAME_MAX_CHARACTERS = 200
PRINTOUTS_MAX_BYTES = 32 * MIB
# A verification holds the inputs of all of a request's calls at once, and of each answer two sides.
INPUTS_MAX_BYTES = 256 * MIB
ANSWER_MAX_BYTES = 256 * MIB

_LINES_MAX = 2**31
_ERRORS_SHOWN = 20
_CUT = " ..."
# The most characters of a text and items of a container, tried one after the other until the facts are small enough.
_FACTS_STEPS = ((TEXT_MAX_CHARACTERS, 1000), (1000, 100), (200, 20), (50, 5))

Said = TypeVar("Said", bound=Frozen)


def cut_failure(failure: Failure) -> Failure:
    return Failure(
        slug=_text(failure.slug, TEXT_MAX_CHARACTERS),
        detail=_text(failure.detail, TEXT_MAX_CHARACTERS),
        facts=_facts(failure.facts),
    )


def cut_check(check: TraceCheck) -> TraceCheck:
    message = check.torch.message
    torch_check = TorchCheck(
        ran=check.torch.ran,
        passed=check.torch.passed,
        message=None if message is None else _text(message, TORCH_MESSAGE_MAX_CHARACTERS),
    )
    return TraceCheck(
        verdict=check.verdict,
        tolerance=check.tolerance,
        comparisons=[_with_short_texts(one, Comparison) for one in check.comparisons[:COMPARISONS_MAX]],
        findings=_findings(check.findings),
        torch=torch_check,
    )


def excess_of(message: JsonValue) -> str | None:
    """In what the message goes over the bounds within which it is looked at more closely; None if in nothing."""
    level: list[Any] = [message]
    members = 0
    for _ in range(MESSAGE_DEPTH_MAX + 1):
        members += sum(len(each) for each in level if isinstance(each, list | dict))
        if members > MESSAGE_MEMBERS_MAX:
            return f"it has more than {MESSAGE_MEMBERS_MAX} members"
        level = [item for each in level for item in _items(each)]
        if not level:
            return None
    return f"it nests deeper than {MESSAGE_DEPTH_MAX} levels"


def text_of(error: Exception) -> str:
    """What is wrong with a message. pydantic shows every mistake, and with it a part of the message."""
    if isinstance(error, ValidationError) and error.error_count() > _ERRORS_SHOWN:
        return f"{error.error_count()} mistakes in {error.title}"
    return str(error)


def _findings(found: list[Finding]) -> list[Finding]:
    """The tracer's warnings go first where there are too many, for a model's loop may give thousands."""
    by_weight = sorted(range(len(found)), key=lambda place: found[place].kind == "tracer-warning")
    kept: dict[int, Finding] = {}
    left = FINDINGS_MAX_BYTES
    for place in by_weight[:FINDINGS_MAX]:
        whole = found[place]
        line = whole.line if whole.line is not None and 0 <= whole.line < _LINES_MAX else None
        finding = _with_short_texts(whole, Finding, line=line, evidence=_facts(whole.evidence))
        left -= len(finding.model_dump_json().encode())
        if left < 0:
            break
        kept[place] = finding
    return [kept[place] for place in sorted(kept)]


def _with_short_texts(said: Said, kind: type[Said], **others: Any) -> Said:
    fields = {
        name: _text(value, TEXT_MAX_CHARACTERS) if isinstance(value, str) else value
        for name, value in dict(said).items()
    }
    return kind(**(fields | others))


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


def _items(value: Any) -> list[Any]:
    """What nests in it. Most lists are numbers, which are not gone through one by one."""
    match value:
        case dict():
            return [*value.values()]
        case list() if not {list, dict}.isdisjoint(map(type, value)):
            return value
    return []
