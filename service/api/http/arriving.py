"""Arriving: what of a request's body is in memory is counted, until the request has been answered."""

from fastapi import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from service.api.context import AppContext
from service.api.held_bytes import Holding
from service.api.http.tenant import tenant_of


class Arriving:
    """Gives each request a count of its own."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        context: AppContext = scope["app"].state.context
        held = Holding(context.arriving)
        scope["state"] = {**scope.get("state", {}), "arriving": held}
        try:
            await self._app(scope, receive, send)
        finally:
            held.close()


def expect(request: Request, byte_size: int) -> None:
    """Raise TooMuchArrives if so much of the body could not be held now."""
    _held(request).expect(tenant_of(request.scope), byte_size)


def reach(request: Request, byte_size: int) -> None:
    """Count so many bytes, which are in memory by now. Raises TooMuchArrives."""
    _held(request).reach(tenant_of(request.scope), byte_size)


def _held(request: Request) -> Holding:
    held: Holding = request.state.arriving
    return held
