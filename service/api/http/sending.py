"""Sending: a reply goes out in pieces, as fast as its client reads, and what waits in memory meanwhile is counted."""

import logging
from collections.abc import Iterator

from fastapi import Request
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.held_bytes import Holding
from service.api.http.held import UNREAD
from service.api.http.tenant import tenant_of
from service.api.problems import reply
from service.domain.errors import TooMuchUnread

# uvicorn waits before a message while more than 64 KiB of the ones before it are unread.
_PIECE_BYTES = 64 * 1024
# A piece of a stream and what was made for it. Of an answer's tensors it takes 768 KiB at most.
_STREAM_BYTES = 2**20

log = logging.getLogger(__name__)


class Sending:
    """Holds nothing of a large reply in the connection, and refuses the reply if too much is unread already.

    Event streams have limits of their own: they are long, and each holds little at a time.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        await self._app(scope, receive, _Outgoing(scope, receive, send).send)


class _Outgoing:
    """One reply on its way. Its head waits for the first piece of its body, after which it cannot be refused."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        self._held: Holding = scope["state"][UNREAD]
        self._head: Message | None = None
        self._refused = False

    async def send(self, message: Message) -> None:
        if self._refused:
            return
        if message["type"] == "http.response.start" and not _is_event_stream(message):
            self._head = message
            return
        if self._head is not None:
            head, self._head = self._head, None
            try:
                self._hold_body(message)
            except TooMuchUnread as error:
                await self._refuse(error)
                return
            await self._send(head)
        for piece in _pieces(message):
            await self._send(piece)

    def _hold_body(self, first: Message) -> None:
        if self._held.byte_size:  # the route has counted what the reply is made of
            return
        byte_size = _STREAM_BYTES if first.get("more_body", False) else len(first.get("body", b""))
        self._held.reach(tenant_of(self._scope), byte_size)

    async def _refuse(self, error: TooMuchUnread) -> None:
        """Send a problem instead. What made the reply is told that the client has gone, because its reply is whole."""
        self._refused = True
        log.warning("reply refused", extra={"error": error.slug(), "detail": error.detail})
        await reply(Request(self._scope), error)(self._scope, self._receive, self._send)


def _is_event_stream(head: Message) -> bool:
    return Headers(raw=head["headers"]).get("content-type", "").startswith("text/event-stream")


def _pieces(message: Message) -> Iterator[Message]:
    """Split a large piece of a body, without which the connection would hold all of it."""
    body = message.get("body", b"")
    if len(body) <= _PIECE_BYTES:
        yield message
        return
    for start in range(0, len(body), _PIECE_BYTES):
        past = start + _PIECE_BYTES
        # A copy: a view in the connection's buffer would keep the whole body.
        yield {
            **message,
            "body": bytes(body[start:past]),
            "more_body": past < len(body) or message.get("more_body", False),
        }
