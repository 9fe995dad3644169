"""The fast path: small requests for inference are answered before there is a task or an app for them.

It gives the answers that the routes in `service.api.inference` and `service.api.oip.infer` give, made by the same
functions, and beside successes only the refusal of what could not be answered now, whatever it asks. All else that it
does not know, refuses or would have to wait for goes to the app, which finds the request as it came. Nothing here reads
the database, changes threads or awaits.
"""

import re
from functools import lru_cache

from uvicorn._types import HTTPScope

from service.api.context import AppContext
from service.api.fast_request import PlainHead, Route
from service.api.http.beginnings import Beginnings
from service.api.http.repeated_head import LENGTH_DIGITS_MAX
from service.api.inference import INFER
from service.api.oip.model_ref import MODEL, MODEL_VERSION

# The headers with which a request may be answered here: those that are read below, and those that change no answer.
# All others are the app's, so that nothing that it reads is overlooked here.
_HEADERS = frozenset(
    {
        b"accept", b"accept-encoding", b"accept-language", b"authorization", b"connection", b"content-length",
        b"content-type", b"host", b"inference-header-content-length", b"user-agent", b"x-request-id",
    }
)  # fmt: skip
_PATH_MAX = 512
_REFERENCE = r"[A-Za-z0-9._@:-]+"
_PATH = re.compile(
    rf"/infer/(?P<model>{_REFERENCE})|/v2/models/(?P<name>{_REFERENCE})(?:/versions/(?P<version>{_REFERENCE}))?/infer"
)


class FastPath:
    """Takes requests whose heads are plain. `has_cors`: other origins' pages may ask, so that replies vary."""

    def __init__(self, context: AppContext, *, has_cors: bool) -> None:
        self._context = context
        # In turns, as requests to the app begin: whoever asks again at once leaves most of each turn to the answers.
        self._refusals = Beginnings()
        self._after_type = b"vary: Origin\r\n" if has_cors else b""

    def read(self, scope: HTTPScope) -> PlainHead | None:
        """Return the head of a request if it is plain; its body has not arrived yet."""
        if scope["method"] != "POST" or scope["query_string"] or scope["http_version"] != "1.1" or scope["root_path"]:
            return None
        route = _route_of(scope["path"])
        if route is None:
            return None
        headers: dict[bytes, bytes] = {}
        for name, value in scope["headers"]:
            if name not in _HEADERS or name in headers:
                return None
            headers[name] = value
        length = headers.pop(b"content-length", b"")
        if not length.isdigit() or len(length) > LENGTH_DIGITS_MAX:
            return None
        head = PlainHead(self._context, self._refusals, scope["path"], route, headers, self._after_type)
        return head if head.is_answerable and head.takes(int(length)) else None


def _route_of(path: str) -> Route | None:
    return _remembered_route(path) if len(path) <= _PATH_MAX else None


@lru_cache(maxsize=4096)
def _remembered_route(path: str) -> Route | None:
    found = _PATH.fullmatch(path)
    if found is None:
        return None
    if found["model"] is not None:
        return Route(found["model"], is_protocol=False, path=INFER)
    version = found["version"]
    if version is None:
        return Route(found["name"], is_protocol=True, path=f"{MODEL}/infer")
    return Route(f"{found['name']}:{version}", is_protocol=True, path=f"{MODEL_VERSION}/infer")
