"""The access log: each request has an id, which its reply repeats, and is counted and logged once with its caller."""

import logging
import re
from collections.abc import Collection, Mapping
from random import Random
from time import perf_counter

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.exchanges import NO_ROUTE, Exchanges
from service.log import http_request_id

log = logging.getLogger(__name__)

# An id need only differ from others: asking the system for each would be a call of its own.
_ids = Random()
# The status of a request whose client has gone before its reply began, as nginx has it: there is no such status.
GIVEN_UP = 499
_OK = 200
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")


class AccessLog:
    """The outermost middleware, so that the reply to an internal error has an id too.

    Requests for the paths of `probes` that succeed, of which there is one every few seconds, are logged at DEBUG alone.
    """

    def __init__(self, app: ASGIApp, probes: Collection[str] = ()) -> None:
        self._app = app
        self._probes = probes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = choose_request_id(Headers(scope=scope).get("x-request-id", ""))
        http_request_id.set(request_id)
        begun, status, is_whole = perf_counter(), GIVEN_UP, False
        # `service.api.http.access` authenticates the caller later and enters it here.
        caller: dict[str, str] = {}
        exchanges: Exchanges = scope["app"].state.context.exchanges
        exchanges.begin(scope["method"])
        scope["state"] = {**scope.get("state", {}), "logged_caller": caller}

        async def send_with_id(message: Message) -> None:
            nonlocal status, is_whole
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-ID"] = request_id
            await send(message)
            is_whole = message["type"] == "http.response.body" and not message.get("more_body", False)

        try:
            await self._app(scope, receive, send_with_id)
        except Exception:
            if not is_whole:
                raise
            # The client has its reply. uvicorn would close the connection, on which other requests may wait.
            log.exception("the request failed")
        finally:
            seconds = perf_counter() - begun
            exchanges.count(scope["method"], _route_of(scope), status, seconds)
            level = logging.DEBUG if status == _OK and scope["path"] in self._probes else logging.INFO
            log_exchange(scope["method"], scope["path"], status, seconds, caller, level)


def log_exchange(
    method: str, path: str, status: int, seconds: float, caller: Mapping[str, str], level: int = logging.INFO
) -> None:
    """Log one request with its reply."""
    exchange = {"method": method, "path": path, "status": status, "seconds": round(seconds, 6)}
    log.log(level, "request", extra={**exchange, **caller})


def _route_of(scope: Scope) -> str:
    """Return the path of the route that was found, with its parameters' names."""
    path = getattr(scope.get("route"), "path", NO_ROUTE)
    return path if isinstance(path, str) else NO_ROUTE


def choose_request_id(given: str) -> str:
    """Return the caller's own id if a header and a log can carry it as it is, else a new one."""
    return given if _REQUEST_ID.fullmatch(given) else f"{_ids.getrandbits(128):032x}"
