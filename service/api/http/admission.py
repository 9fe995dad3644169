"""Admission: whether a request is answered when there are too many connections."""

from fastapi import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from service.api import health
from service.api.context import AppContext
from service.api.http.bearer import authenticate
from service.api.http.places import Place
from service.api.problems import TooManyConnections, TooManyFromAddress, reply
from service.domain.api_key import DEFAULT_TENANT
from service.domain.errors import Unauthenticated
from tracehouse.errors import ServiceError


class Admission:
    """Answers requests as long as those without a key may hold places; after that, only health and who has a key.

    A request with a key gives its place to its tenant later, when `service.api.http.access` knows the key. Only if the
    place is not to be had without, the key is looked up here. Health needs no admission: its place makes room.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (place := place_of(scope)) is not None:
            request = Request(scope)
            if (error := await _refusal(request, place)) is not None:
                await reply(request, error)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def place_of(scope: Scope) -> Place | None:
    """Return the place of the request's connection; None if it did not come through a connection."""
    place: Place | None = scope.get("state", {}).get("place")
    return place


def identify(request: Request, context: AppContext, tenant: str) -> None:
    """Give the connection's place to the tenant. Raises ConnectionQuotaExceeded and TooManyConnections."""
    if (place := place_of(request.scope)) is not None:
        place.identify(tenant, context.limits.tenant_connections_max if context.keys_required else None)


async def _refusal(request: Request, place: Place) -> ServiceError | None:
    try:
        place.admit(request.client.host if request.client else "")
    except (TooManyFromAddress, TooManyConnections) as error:
        if request.scope["path"] in health.PATHS:
            return None
        return await _refusal_with_key(request, error)
    return None


async def _refusal_with_key(request: Request, without_key: ServiceError) -> ServiceError | None:
    context: AppContext = request.app.state.context
    try:
        key = await authenticate(request, context) if context.keys_required else None
        identify(request, context, DEFAULT_TENANT if key is None else key.tenant)
    except Unauthenticated:
        return without_key
    except ServiceError as error:
        return error
    return None
