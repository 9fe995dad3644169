"""Held: what a request has in memory, of its body and of its reply, is counted until it has been answered."""

from fastapi import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from service.api.context import AppContext
from service.api.held_bytes import Holding
from service.api.http.tenant import tenant_of

# The counts in a request's state.
_ARRIVING = "arriving"
UNREAD = "unread"


class Held:
    """Gives each request counts of its own."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        context: AppContext = scope["app"].state.context
        held = {_ARRIVING: Holding(context.arriving), UNREAD: Holding(context.unread)}
        scope["state"] = {**scope.get("state", {}), **held}
        try:
            await self._app(scope, receive, send)
        finally:
            for each in held.values():
                each.close()


def expect_body(request: Request, byte_size: int) -> None:
    """Raise TooMuchArrives if so much of the body could not be held now."""
    _held(request, _ARRIVING).expect(tenant_of(request.scope), byte_size)


def hold_body(request: Request, byte_size: int) -> None:
    """Count so many bytes of the body, which are in memory by now. Raises TooMuchArrives."""
    _held(request, _ARRIVING).reach(tenant_of(request.scope), byte_size)


def hold_reply(request: Request, byte_size: int) -> None:
    """Count so many bytes, which the reply is made of, until it has been read. Raises TooMuchUnread."""
    _held(request, UNREAD).reach(tenant_of(request.scope), byte_size)


def _held(request: Request, name: str) -> Holding:
    held: Holding = request.scope["state"][name]
    return held
