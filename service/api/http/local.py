"""Local: while keys are off, programs and pages of this machine are answered, and no web page from elsewhere.

Any web page in a browser on this machine can send requests to the service: across sites, or under a name of its own
that resolves to this machine (DNS rebinding). Both can be seen in headers that no page can set.
"""

import re
from collections.abc import Collection
from functools import lru_cache
from ipaddress import ip_address

from fastapi import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from service.api.context import AppContext
from service.api.problems import reply
from service.domain.errors import Forbidden

_HOST = re.compile(r"(?:localhost|([0-9.]+)|\[([0-9a-f:.]+)\])(?::[0-9]{1,5})?", re.ASCII | re.IGNORECASE)


class ForeignHost(Forbidden):
    """The request is not addressed to this machine

    Use localhost or 127.0.0.1; to use another name, start the service with API_KEYS=required and make a key.
    """


class CrossSiteRequest(Forbidden):
    """A web page from elsewhere sent this request

    Send it from the service's own pages or from a program; CORS_ORIGINS can name other pages that may.
    """


class Local:
    """Refuses such requests before anything else looks at them. Pages of `origins` are answered."""

    def __init__(self, app: ASGIApp, origins: Collection[str]) -> None:
        self._app = app
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            context: AppContext = scope["app"].state.context
            request = Request(scope)
            if not context.keys_required and (error := self._refusal(request)) is not None:
                await reply(request, error)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _refusal(self, request: Request) -> Forbidden | None:
        hosts = request.headers.getlist("host")
        if len(hosts) != 1 or not is_this_machine(hosts[0]):
            return ForeignHost(
                "while keys are off, only requests from this machine are answered", host=", ".join(hosts)[:80]
            )
        origin = request.headers.get("origin")
        here = f"{request.url.scheme}://{hosts[0]}".lower()
        if origin not in self._origins and _is_from_elsewhere(request, origin, here):
            return CrossSiteRequest("while keys are off, pages from elsewhere may not send this", origin=origin)
        return None


def _is_from_elsewhere(request: Request, origin: str | None, here: str) -> bool:
    elsewhere = request.headers.get("sec-fetch-site") in ("cross-site", "same-site")
    if request.method in ("GET", "HEAD"):
        # A user may follow a link. What a page loads by itself it could not read, and it would only cost us.
        return elsewhere and request.headers.get("sec-fetch-mode") != "navigate"
    return elsewhere or origin not in (None, here)


@lru_cache(maxsize=256)
def is_this_machine(host: str) -> bool:
    """Whether a Host header names this machine."""
    found = _HOST.fullmatch(host)
    if found is None:
        return False
    address = found[1] or found[2]
    try:
        return address is None or ip_address(address).is_loopback
    except ValueError:
        return False
