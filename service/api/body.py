"""A request's body: read up to a limit while it arrives, and JSON that is safe for whatever handles it next."""

from collections.abc import AsyncIterator
from typing import TypeVar

import orjson
from fastapi import Request
from multipart import parse_options_header
from pydantic import BaseModel, JsonValue, ValidationError

from service.api.problems import invalid_body
from service.domain.errors import MalformedJson, PayloadTooLarge, UnsupportedMediaType

# Beyond these nobody means it. pydantic goes 255 levels deep, and keeps about a kilobyte for each mistake it finds.
DEPTH_MAX = 100
MEMBERS_MAX = 200_000

_BATCH_BYTES = 2**20

Model = TypeVar("Model", bound=BaseModel)


def media_type(request: Request) -> tuple[str, dict[str, str]]:
    """The content type in lower case, and its parameters."""
    value, options = parse_options_header(request.headers.get("content-type", ""))
    return value.strip().lower(), options


async def read_json(request: Request, max_bytes: int) -> JsonValue:
    """Raises UnsupportedMediaType, PayloadTooLarge and MalformedJson."""
    kind, options = media_type(request)
    if kind != "application/json" or options.get("charset", "utf-8").lower() not in ("utf-8", "utf8"):
        raise UnsupportedMediaType(
            "this route takes application/json in UTF-8", actual=kind[:80], supported=["application/json"]
        )
    return parse_json(b"".join([batch async for batch in batches(request, max_bytes)]))


async def read_model(request: Request, model: type[Model], max_bytes: int = 2**16) -> Model:
    """A small JSON body as `model`."""
    body = await read_json(request, max_bytes)
    try:
        return model.model_validate(body)
    except ValidationError as error:
        raise invalid_body(error, body) from error


async def batches(request: Request, max_bytes: int) -> AsyncIterator[bytes]:
    """The body in pieces of about a megabyte: each costs its reader a hop to another thread."""
    if (encoding := request.headers.get("content-encoding", "identity").lower()) != "identity":
        raise UnsupportedMediaType("no content encoding is taken", actual=encoding[:80], supported=["identity"])
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and (len(declared) > 18 or int(declared) > max_bytes):
        raise _too_large(max_bytes)
    received, batch = 0, bytearray()
    async for chunk in request.stream():
        received += len(chunk)
        if received > max_bytes:
            raise _too_large(max_bytes)
        batch += chunk
        if len(batch) >= _BATCH_BYTES:
            yield bytes(batch)
            batch.clear()
    if batch:
        yield bytes(batch)


def parse_json(text: bytes | bytearray) -> JsonValue:
    """Strict JSON: no NaN, no lone surrogates, UTF-8 alone, and nested no deeper than anybody means."""
    try:
        value: JsonValue = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise MalformedJson(
            f"{error.msg} (line {error.lineno}, column {error.colno})",
            line=error.lineno,
            column=error.colno,
            position=error.pos,
        ) from error
    _check_bounds(value)
    return value


def _check_bounds(value: JsonValue) -> None:
    level, members = [value], 0
    for _ in range(DEPTH_MAX):
        deeper: list[JsonValue] = []
        for each in level:
            if isinstance(each, dict):
                members += len(each)
                deeper += each.values()
            # Most lists are numbers: found out at the speed of C, they are not gone through here.
            elif isinstance(each, list) and not {list, dict}.isdisjoint(map(type, each)):
                deeper += each
        if members > MEMBERS_MAX:
            raise MalformedJson(f"there are more than {MEMBERS_MAX} members in all", limit=MEMBERS_MAX)
        if not deeper:
            return
        level = deeper
    raise MalformedJson(f"the body nests deeper than {DEPTH_MAX} levels", limit=DEPTH_MAX)


def _too_large(max_bytes: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"the body may have {max_bytes} bytes", limit=max_bytes)
