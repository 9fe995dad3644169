"""A request's body: read up to a limit while it arrives, and parsed as JSON within limits."""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from time import monotonic
from typing import Any, ParamSpec, TypeVar

import orjson
from fastapi import Request
from multipart import parse_options_header
from pydantic import BaseModel, JsonValue, ValidationError
from starlette.requests import ClientDisconnect
from starlette.types import Message

from service.api.context import AppContext
from service.api.http import held
from service.api.http.in_turn import go_on, parse, while_connected
from service.api.http.least_rate import LeastRate
from service.api.json_members import describe
from service.api.problems import RequestTimeout, invalid_body
from service.api.waiting import POLL_S
from service.domain.errors import MalformedJson, PayloadTooLarge, ShuttingDown, UnsupportedMediaType
from tracehouse.byte_units import MIB
from tracehouse.errors import InvalidRequest
from tracehouse.tensors.json_text import CONTAINERS, RepeatedMember, count, find_repeated_member, has_more, levels

# No honest request has more. pydantic goes 255 levels deep, and keeps about a kilobyte for each error it finds.
DEPTH_MAX = 100
MEMBERS_MAX = 2**16
CONTAINERS_MAX = 500_000
# Chosen: a picture of 1024 by 1024 in colours, which takes a third of a second to parse and to pack.
VALUES_MAX = 3_200_000
# In characters. Chosen: pydantic repeats the name of an object in each error that it finds in the object.
NAME_MAX = 1000

_COUNTED = (
    (b"[{", CONTAINERS_MAX, "lists and objects"),
    (b":", MEMBERS_MAX, "members"),
    (b",", VALUES_MAX, "values"),
)

# Work on fewer bytes takes about a millisecond, and a hop to another thread or process and back a tenth of that.
SMALL_BYTES = 64 * 1024
# To copy so many bytes takes a tenth of a millisecond, which is no more than a hop.
COPIED_HERE_BYTES = MIB

# What a small JSON body may be refused with.
BODY_ERRORS = (MalformedJson, RequestTimeout, PayloadTooLarge, UnsupportedMediaType, InvalidRequest)

_BATCH_BYTES = MIB
# Of a body that comes in pieces, shorter ones are put together: kept alone, each would take a hundred bytes more.
_SHORT_BYTES = 4096

Model = TypeVar("Model", bound=BaseModel)
P = ParamSpec("P")
R = TypeVar("R")


def media_type(request: Request) -> tuple[str, dict[str, str]]:
    """Return the content type in lower case, and its parameters."""
    value, options = parse_options_header(request.headers.get("content-type", ""))
    return value.strip().lower(), options


async def read_json(request: Request, max_bytes: int) -> JsonValue:
    """Read a small JSON body. Raises UnsupportedMediaType, PayloadTooLarge and MalformedJson."""
    return parse_json(await read_json_text(request, max_bytes))


async def read_json_text(request: Request, max_bytes: int) -> bytes:
    """Read a JSON body, and leave it to the caller to parse it. Raises UnsupportedMediaType and PayloadTooLarge."""
    check_is_json(request)
    return await read_text(request, max_bytes)


def check_is_json(request: Request) -> None:
    """Raises UnsupportedMediaType if the content type is another one."""
    kind, options = media_type(request)
    if kind != "application/json" or options.get("charset", "utf-8").lower() not in ("utf-8", "utf8"):
        raise UnsupportedMediaType(
            "this route takes application/json in UTF-8", actual=kind[:80], supported=["application/json"]
        )


async def read_text(request: Request, max_bytes: int, encodings: Collection[str] = ()) -> bytes:
    """Read a body whole. Content `encodings` are those that the caller undoes. Raises what `read_batches` raises."""
    if (declared := _declared_bytes(request, max_bytes)) is not None:
        held.expect_body(request, declared)
    _check_encoding(request, encodings)
    pieces = _Pieces()
    async for piece in _read_pieces(request, max_bytes):
        pieces.add(piece)
        held.hold_body(request, pieces.byte_size)
    return pieces.take()


async def parse_aside(
    request: Request, byte_size: int, work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs
) -> R:
    """Parse few bytes of JSON here, and more in turn in a process, so that other requests need not wait for it.

    The request's body must have been read. `work` and all that it takes, returns and raises must be picklable. Raises
    TooMuchWorkWaits and ClientDisconnect.
    """
    if byte_size <= SMALL_BYTES:
        return work(*args, **kwargs)
    return await parse(request, work, *args, **kwargs)


async def go_on_aside(
    request: Request, byte_size: int, work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs
) -> R:
    """Do work on few bytes here, and other work in turn on a thread, for a request that was let in.

    Raises ClientDisconnect.
    """
    return await _go_on_over(SMALL_BYTES, request, byte_size, work, *args, **kwargs)


async def copy_aside(request: Request, byte_size: int, work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Do as `go_on_aside` does, for work that does no more with the bytes than to copy them."""
    return await _go_on_over(COPIED_HERE_BYTES, request, byte_size, work, *args, **kwargs)


async def _go_on_over(
    most_bytes: int, request: Request, byte_size: int, work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs
) -> R:
    if byte_size <= most_bytes:
        return work(*args, **kwargs)
    return await while_connected(request, go_on(request, work, *args, **kwargs))


def describe_body(model: type[BaseModel], example: JsonValue) -> dict[str, Any]:
    """Return what the API document says of a route that reads this model: `openapi_extra` of the route.

    The document has the models themselves from `service.api.docs`.
    """
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    content = {"application/json": {"schema": schema, "example": example}}
    return {"requestBody": {"required": True, "content": content}}


async def read_model(request: Request, model: type[Model], max_bytes: int = 2**16) -> Model:
    """Read a small JSON body as `model`. Raises BODY_ERRORS."""
    body = await read_json(request, max_bytes)
    try:
        return model.model_validate(body)
    except ValidationError as error:
        raise invalid_body(error, body, model) from error


async def read_batches(
    request: Request,
    max_bytes: int,
    reserve: Callable[[int], object] | None = None,
    encodings: Collection[str] = (),
    kept_bytes: Callable[[], int] | None = None,
) -> AsyncIterator[bytes]:
    """Yield the body in pieces of about a megabyte, because each costs its reader a hop to another thread.

    `reserve` is called with the declared size before any of the body is read, and before a piece is yielded with what
    has been received, where that is more than was declared. It may raise, and is called on another thread. `kept_bytes`
    says how many bytes of the pieces the reader keeps in memory; without it, that is all of them.

    Raises TooMuchArrives, RequestTimeout if it stops arriving or comes too slowly, ShuttingDown if the service stops,
    PayloadTooLarge, and UnsupportedMediaType if it is compressed in another way than `encodings`.
    """
    _check_encoding(request, encodings)
    declared = _declared_bytes(request, max_bytes) or 0
    if reserve is not None and declared:
        await go_on(request, reserve, declared)
    received, batch = 0, _Pieces()
    async for piece in _read_pieces(request, max_bytes):
        received += len(piece)
        batch.add(piece)
        held.hold_body(request, received if kept_bytes is None else kept_bytes() + batch.byte_size)
        if batch.byte_size >= _BATCH_BYTES:
            yield await _reserved(request, reserve, received, declared, batch)
    if batch.byte_size:
        yield await _reserved(request, reserve, received, declared, batch)


async def _reserved(
    request: Request, reserve: Callable[[int], object] | None, received: int, declared: int, batch: "_Pieces"
) -> bytes:
    """Take the batch, once all that was received is reserved."""
    if reserve is not None and received > declared:
        await go_on(request, reserve, received)
    return batch.take()


class _Pieces:
    """Gathers the pieces of a body. Short ones are joined at once: as an object, each takes some fifty bytes more."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._short = bytearray()
        self.byte_size = 0

    def add(self, piece: bytes) -> None:
        self.byte_size += len(piece)
        if len(piece) < _SHORT_BYTES:
            self._short += piece
            return
        self._pieces += [bytes(self._short), piece] if self._short else [piece]
        self._short.clear()

    def take(self) -> bytes:
        """Return them as one, and begin anew."""
        whole = b"".join([*self._pieces, self._short])
        self._pieces.clear()
        self._short.clear()
        self.byte_size = 0
        return whole


def _check_encoding(request: Request, encodings: Collection[str]) -> None:
    """Raises UnsupportedMediaType."""
    taken = ["identity", *encodings]
    if (encoding := request.headers.get("content-encoding", "identity").lower()) not in taken:
        raise UnsupportedMediaType(
            f"this route takes the content encoding {' or '.join(taken)}", actual=encoding[:80], supported=taken
        )


async def _read_pieces(request: Request, max_bytes: int) -> AsyncIterator[bytes]:
    """Yield the body as it arrives. Raises what `read_batches` raises while it does."""
    context: AppContext = request.app.state.context
    received, more = 0, True
    rate = LeastRate(context.limits.body_bytes_per_s_min, grace_s=context.limits.request_idle_s)
    while more:
        message = await _receive(request, context, rate)
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        piece, more = message.get("body", b""), message.get("more_body", False)
        if more and context.stopping.is_set():
            raise _stopping()
        received += len(piece)
        rate.receive(len(piece))
        if received > max_bytes:
            raise _too_large(max_bytes)
        yield piece


def _declared_bytes(request: Request, max_bytes: int) -> int | None:
    """Return how long the body is said to be; None if that is not said. Raises PayloadTooLarge."""
    declared = request.headers.get("content-length", "")
    if not declared.isdecimal():
        return None
    if len(declared) > 18 or int(declared) > max_bytes:
        raise _too_large(max_bytes)
    return int(declared)


async def _receive(request: Request, context: AppContext, rate: LeastRate) -> Message:
    while rate.left_s > 0:
        begun, wait_s = monotonic(), min(rate.left_s, POLL_S)
        try:
            async with asyncio.timeout(wait_s):
                return await request.receive()
        except TimeoutError:
            if context.stopping.is_set():
                raise _stopping() from None
        finally:
            # If this process did not run meanwhile, more time has passed, and that was not the client's.
            rate.wait(min(monotonic() - begun, wait_s))
    limits = context.limits
    raise RequestTimeout(
        f"the body is {limits.request_idle_s:g} s behind {limits.body_bytes_per_s_min} bytes a second",
        limit_s=limits.request_idle_s,
        bytes_per_s_min=limits.body_bytes_per_s_min,
    )


def _stopping() -> ShuttingDown:
    return ShuttingDown("the service stopped before the whole request arrived")


def parse_json(text: bytes | bytearray) -> JsonValue:
    """Parse strict JSON: UTF-8, no NaN, no lone surrogates, each member once, limited depth and size.

    Raises MalformedJson.
    """
    for marks, most, what in _COUNTED:
        if len(text) > most and has_more(text, marks, most):
            raise MalformedJson(f"there are more than {most} {what} in all", limit=most)
    try:
        value: JsonValue = _loads(text)
    except orjson.JSONDecodeError as error:
        raise MalformedJson(
            f"{error.msg} (line {error.lineno}, column {error.colno})",
            line=error.lineno,
            column=error.colno,
            position=error.pos,
        ) from error
    if repeated := find_repeated_member(text, _count_members(text, value)):
        raise _repeated(text, repeated)
    return value


def _loads(text: bytes | bytearray) -> JsonValue:
    """Parse at once: with half a million lists, the garbage collector would go through all objects several times."""
    if len(text) <= SMALL_BYTES:
        value: JsonValue = orjson.loads(text)
        return value
    collecting = gc.isenabled()
    gc.disable()
    try:
        value = orjson.loads(text)
    finally:
        if collecting:
            gc.enable()
    return value


def _count_members(text: bytes | bytearray, value: JsonValue) -> int:
    """Return the number of members of all objects. Raises MalformedJson if it nests too deeply, or a name is long."""
    if count(text, b"[") + count(text, b"{") <= DEPTH_MAX:  # it cannot nest too deeply
        return _count_within(value)
    members = 0
    for depth, (objects, _) in enumerate(levels(value)):
        if depth == DEPTH_MAX:
            raise MalformedJson(f"the body nests deeper than {DEPTH_MAX} levels", limit=DEPTH_MAX)
        members += sum(map(_count_names, objects))
    return members


def _count_within(value: JsonValue) -> int:
    """Do the same for a value that cannot nest too deeply, which costs less than to go level by level."""
    if isinstance(value, dict):
        nested = [each for each in value.values() if type(each) in CONTAINERS]
        return _count_names(value) + sum(map(_count_within, nested))
    if isinstance(value, list) and not CONTAINERS.isdisjoint(map(type, value)):
        return sum(map(_count_within, value))
    return 0


def _count_names(members: Mapping[str, JsonValue]) -> int:
    """Raises MalformedJson for a long one."""
    if max(map(len, members), default=0) > NAME_MAX:
        raise MalformedJson(f"the name of a member is longer than {NAME_MAX} characters", limit=NAME_MAX)
    return len(members)


def _repeated(text: bytes | bytearray, repeated: RepeatedMember) -> MalformedJson:
    before = text[: repeated.position].decode()
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    name = describe(repeated.name)
    return MalformedJson(
        f"the member {name} stands twice in one object (line {line}, column {column})",
        member=repeated.name[:80],
        line=line,
        column=column,
        position=len(before),
    )


def _too_large(max_bytes: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"the body may have {max_bytes} bytes", limit=max_bytes)
