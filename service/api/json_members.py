"""JSON values that must have a certain form; otherwise InvalidRequest says where the body has another one."""

from heapq import nsmallest
from typing import Any

from pydantic import JsonValue

from tracehouse.errors import InvalidRequest


def as_members(value: JsonValue, allowed: set[str], pointer: str) -> dict[str, JsonValue]:
    """Return the members of an object that has no others than those allowed. Raises InvalidRequest."""
    given = as_object(value, pointer)
    if unknown := given.keys() - allowed:
        raise invalid_at(pointer, f"there is no member {describe(min(unknown))} here", members=sorted(allowed))
    return given


def as_object(value: JsonValue, pointer: str) -> dict[str, JsonValue]:
    """Return the value, which must be an object. Raises InvalidRequest."""
    if isinstance(value, dict):
        return value
    raise invalid_at(pointer, f"this is an object, not {describe(value)}")


def as_list(value: JsonValue, pointer: str) -> list[JsonValue]:
    """Return the value, which must be a list. Raises InvalidRequest."""
    if isinstance(value, list):
        return value
    raise invalid_at(pointer, f"this is a list, not {describe(value)}")


def invalid_at(pointer: str, detail: str, **facts: Any) -> InvalidRequest:
    """Return the error for what stands at the JSON pointer; the empty pointer is the whole body."""
    return InvalidRequest(
        f"{pointer or 'the body'}: {detail}", errors=[{"pointer": pointer, "detail": detail}], **facts
    )


def describe(value: JsonValue) -> str:
    """Return a short text for a value of any size."""
    match value:
        case list():
            return f"a list of {len(value)}"
        case dict():
            return f"an object of {[key[:40] for key in nsmallest(8, value)]}"
        case None:
            return "null"
    text = repr(value[:80] if isinstance(value, str) else value)
    return text if len(text) <= 80 else text[:77] + "..."
