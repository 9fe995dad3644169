"""Problems: every error as `application/problem+json` (RFC 9457). Only here do errors have HTTP statuses."""

import json
import logging
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, ClassVar, get_args
from urllib.parse import quote

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match
from starlette.types import Receive, Scope, Send

from service.domain.errors import (
    ApiKeyMissing,
    Conflict,
    Forbidden,
    MalformedRequest,
    NotAcceptable,
    NotSupported,
    PayloadTooLarge,
    PreconditionFailed,
    PreconditionRequired,
    ScopeMissing,
    TooManyRequests,
    Unauthenticated,
    Unavailable,
    UnsupportedMediaType,
)
from service.log import http_request_id
from tracehouse.errors import (
    CallerError,
    ContractViolation,
    Failure,
    Fault,
    InferenceError,
    InferenceTimeout,
    InvalidRequest,
    NotFound,
    RunnerLost,
    ServiceError,
    TraceError,
    TracerLost,
    by_slug,
)

log = logging.getLogger(__name__)

PROBLEM_JSON = "application/problem+json"
ERRORS_MAX = 20
DETAIL_MAX = 500


class MethodNotAllowed(CallerError):
    """This path does not take this method

    Use one of the methods in `Allow`.
    """


class RangeNotSatisfiable(CallerError):
    """The range lies outside the file

    `Content-Range` in the reply says how long the file is.
    """


class MalformedHead(CallerError):
    """This is not HTTP/1.1

    Send plain HTTP/1.1; for TLS, put a proxy in front of the service.
    """


class ChunksTooShort(CallerError):
    """The body comes in chunks that are too short

    Send a `Content-Length`, or chunks of some kilobytes. A program that writes many short pieces can join them first.
    """


class HeadersTooLarge(CallerError):
    """The request has more or longer headers than this service takes

    Send fewer and shorter headers; put large values into the body.
    """


class RequestTimeout(CallerError):
    """The request stopped arriving, or came too slowly

    Send it again, faster and without pauses.
    """


class TooManyConnections(Unavailable):
    """Too many connections are open

    Try again later. Requests with an API key are answered for longer than others.
    """


class TooManyFromAddress(TooManyRequests):
    """Too many requests without an API key come from one address

    Wait for earlier ones to be answered, or send a key. If a proxy is in front of the service, tell its operator:
    FORWARDED_ALLOW_IPS has to name the proxy.
    """


class ConnectionQuotaExceeded(TooManyRequests):
    """Too many of the tenant's connections are open

    Close some, or send one request after another on the same connection.
    """


class TooManyStreams(Unavailable):
    """Too many event streams are open

    Try again later, or poll the trace request.
    """


class StreamQuotaExceeded(TooManyRequests):
    """Too many of the tenant's event streams are open

    Close some, or poll the trace request.
    """


class StreamEnded(CallerError):
    """The service ended a stream of requests

    Open another one, and send there what was not answered.
    """


class InternalError(ServiceError):
    """The service made a mistake

    Look for the request's id in the service's log.
    """


# An error without a line of its own has its family's status: the class's MRO is searched.
_STATUS: dict[type[ServiceError], int] = {
    MalformedRequest: 400,
    Unauthenticated: 401,
    Forbidden: 403,
    NotFound: 404,
    MethodNotAllowed: 405,
    NotAcceptable: 406,
    RequestTimeout: 408,
    Conflict: 409,
    PreconditionFailed: 412,
    PayloadTooLarge: 413,
    UnsupportedMediaType: 415,
    RangeNotSatisfiable: 416,
    InvalidRequest: 422,
    ContractViolation: 422,
    TraceError: 422,
    InferenceError: 422,
    PreconditionRequired: 428,
    TooManyRequests: 429,
    HeadersTooLarge: 431,
    CallerError: 400,
    RunnerLost: 502,
    TracerLost: 502,
    Unavailable: 503,
    StreamEnded: 503,
    InferenceTimeout: 504,
    NotSupported: 501,
    ServiceError: 500,
}

# Errors that Starlette itself raises.
_BY_STATUS: dict[int, type[ServiceError]] = {
    404: NotFound,
    405: MethodNotAllowed,
    406: NotAcceptable,
    413: PayloadTooLarge,
    415: UnsupportedMediaType,
    416: RangeNotSatisfiable,
}

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


class Problem(BaseModel):
    """What went wrong, whose fault it is, and the facts that a program can act on (as further members)."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow", frozen=True)

    type: str = Field(description="The path of the kind's description.", examples=["/problems/shape-mismatch"])
    title: str
    status: int
    detail: str
    instance: str | None = Field(None, description="The path of the request.")
    code: str = Field(description="A stable name that a program can compare.", examples=["shape-mismatch"])
    error: str = Field(description="The detail again, under the name that the Open Inference Protocol has for it.")
    fault: Fault = Field(description="Who has to change something: the caller, the model's code, or the service.")
    remedy: str | None = Field(None, description="What to do about it.")
    request_id: str | None = Field(None, description="The X-Request-ID under which the service logged it.")


def status_of(error: type[ServiceError]) -> int:
    return next(_STATUS[family] for family in error.__mro__ if family in _STATUS)


def problem_of(failure: Failure, *, instance: str | None = None, request_id: str | None = None) -> Problem:
    """Return a failure as a problem document. A failure that a newer release wrote is called a fault of the service."""
    error = by_slug().get(failure.slug, ServiceError)
    remedy = failure.facts.get("remedy")
    standard = {
        "type": f"/problems/{failure.slug}",
        "title": error.title(),
        "status": status_of(error),
        "detail": failure.detail,
        "instance": instance,
        "code": failure.slug,
        "error": failure.detail,
        "fault": error.fault,
        "remedy": remedy if isinstance(remedy, str) else error.remedy(),
        "request_id": request_id,
    }
    return Problem.model_validate(failure.facts | standard)


def problem_responses(*errors: type[ServiceError]) -> dict[int | str, dict[str, Any]]:
    """Return, for a route's `responses`, each status of these errors with the slugs that it stands for."""
    by_status: dict[int | str, list[type[ServiceError]]] = {}
    for error in errors:
        by_status.setdefault(status_of(error), []).append(error)
    return {
        status: {
            "description": "; ".join(f"`{error.slug()}`: {error.title()}" for error in listed),
            "content": {PROBLEM_JSON: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for status, listed in sorted(by_status.items(), key=lambda item: str(item[0]))
    }


def invalid_body(error: ValidationError, body: JsonValue, model: type[BaseModel]) -> InvalidRequest:
    """Return pydantic's errors with pointers into the body. Values of the body are never repeated."""
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    errors = [
        {
            "pointer": json_pointer(each["loc"], body, missing=each["type"] == "missing"),
            "detail": detail[:DETAIL_MAX],
        }
        for each in problems[:ERRORS_MAX]
        for detail in (_unknown_member(each["loc"], model) if each["type"] == "extra_forbidden" else each["msg"],)
    ]
    return _invalid(errors, len(problems))


def _unknown_member(location: tuple[int | str, ...], model: type[BaseModel]) -> str:
    """Name the members that the object may have, if all objects around it are models."""
    here: type[BaseModel] | None = model
    for step in location[:-1]:
        field = here.model_fields.get(str(step)) if here else None
        kinds = [field.annotation, *get_args(field.annotation)] if field else []
        here = next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), None)
    known = f"; there are {', '.join(here.model_fields)}" if here else ""
    return f"there is no such member{known}"


def json_pointer(location: Iterable[int | str], body: JsonValue, *, missing: bool = False) -> str:
    """Return an RFC 6901 pointer: pydantic's location without branches of unions and items that the body lacks.

    It is cut after DETAIL_MAX characters: the names in it may be long, and each error repeats them.
    """
    steps = list(location)
    here, path = body, []
    for place, step in enumerate(steps):
        if isinstance(here, dict) and step in here:
            here = here[str(step)]
        elif isinstance(here, list) and isinstance(step, int) and step < len(here):
            here = here[step]
        elif not (missing and place == len(steps) - 1):
            continue
        path.append(str(step)[:DETAIL_MAX].replace("~", "~0").replace("/", "~1"))
    return "".join(f"/{step}" for step in path)[:DETAIL_MAX]


def _invalid(errors: list[dict[str, str]], count: int) -> InvalidRequest:
    first = errors[0]
    where = first.get("pointer") or first.get("parameter") or "the body"
    more = f" (and {count - 1} more)" if count > 1 else ""
    return InvalidRequest(f"{where}: {first['detail']}{more}", errors=errors)


def install(app: FastAPI) -> None:
    """Answer every error in this app with a problem document."""
    app.add_exception_handler(ServiceError, _service_error)
    app.add_exception_handler(RequestValidationError, _invalid_parameters)
    app.add_exception_handler(HTTPException, _http_exception)
    app.add_exception_handler(ClientDisconnect, _client_disconnected)
    app.add_exception_handler(Exception, _internal_error)


async def _service_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ServiceError)
    log_failure(error)
    return reply(request, error)


def log_failure(error: ServiceError) -> None:
    """Log an error that is the service's own fault. A refusal that nothing else caused says all in its words."""
    if error.fault == "service":
        refused = isinstance(error, Unavailable)
        level = logging.WARNING if refused else logging.ERROR
        raised = None if refused and error.__cause__ is None else error
        log.log(level, "request failed", extra={"error": error.slug(), "detail": error.detail}, exc_info=raised)


async def _invalid_parameters(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    problems = error.errors()
    errors = [
        {"in": str(each["loc"][0]), "parameter": str(each["loc"][-1]), "detail": str(each["msg"])[:DETAIL_MAX]}
        for each in problems[:ERRORS_MAX]
    ]
    return reply(request, _invalid(errors, len(problems)))


async def _http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    default = InternalError if error.status_code >= 500 else MalformedRequest
    kind = _BY_STATUS.get(error.status_code, default)
    headers = dict(error.headers or {})
    if kind is MethodNotAllowed:
        headers["Allow"] = ", ".join(_allowed_methods(request))
        return reply(request, kind(f"{request.method[:20]} is not one of {headers['Allow']}"), headers)
    detail = "" if error.detail == HTTPStatus(error.status_code).phrase else f": {error.detail}"
    return reply(request, kind(f"{kind.title()}{detail}"), headers)


class _NoReply(Response):
    """What a client gets that has gone: the access log says so, and no problem is counted."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send nothing."""


async def _client_disconnected(_: Request, __: Exception) -> Response:
    return _NoReply()


async def _internal_error(request: Request, _: Exception) -> Response:
    return reply(request, InternalError("the log has the details under this request's id"))


def reply(request: Request, error: ServiceError, headers: Mapping[str, str] | None = None) -> Response:
    """Return the error as a response with a problem document, and count it."""
    request.app.state.context.exchanges.count_problem(error)
    response = Response(
        document_of(error, request.scope["path"], http_request_id.get()),
        status_code=status_of(type(error)),
        headers=headers,
        media_type=PROBLEM_JSON,
    )
    response.headers.update(headers_of(error))
    if isinstance(error, Unauthenticated | ScopeMissing):
        response.headers["WWW-Authenticate"] = _challenge(error)
    return response


def document_of(error: ServiceError, path: str, request_id: str | None) -> bytes:
    """Return the problem document of a request's error."""
    problem = problem_of(error.failure(), instance=_instance(path), request_id=request_id)
    # A fact may be any number or text: json writes them all, orjson has limits.
    return json.dumps(problem.model_dump(exclude_none=True), default=str).encode()


def headers_of(error: ServiceError) -> dict[str, str]:
    """Return the headers that tell a client when to try again, and whether on another connection."""
    headers = {}
    if isinstance(error, Unavailable | TooManyRequests) or "retry_after_s" in error.facts:
        headers["Retry-After"] = str(error.facts.get("retry_after_s", 1))
    if isinstance(error, RequestTimeout):
        headers["Connection"] = "close"
    return headers


def _challenge(error: Unauthenticated | ScopeMissing) -> str:
    """Return the challenge of RFC 6750, which names no error if no key was sent."""
    challenge = 'Bearer realm="tracehouse"'
    if isinstance(error, ApiKeyMissing):
        return challenge
    if isinstance(error, ScopeMissing):
        return f'{challenge}, error="insufficient_scope", scope="{error.facts["scope"]}"'
    return f'{challenge}, error="invalid_token", error_description="{error.title()}"'


def _instance(path: str) -> str:
    return quote(path, safe="/:@", errors="replace")[:DETAIL_MAX]


def _allowed_methods(request: Request) -> list[str]:
    """Return the methods of all routes with this path, for the route that Starlette found knows only its own."""
    routes = request.app.router.routes
    return [
        method
        for method in _METHODS
        # `service.api.http.head` answers HEAD with GET.
        for scope in (dict(request.scope, method=method.replace("HEAD", "GET")),)
        if any(route.matches(scope)[0] is Match.FULL for route in routes)
    ]
