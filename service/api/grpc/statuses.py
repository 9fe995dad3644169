"""What a call that fails ends with: a status of gRPC, a text that names the remedy, and the problem document."""

import json
from string import printable
from urllib.parse import quote

import grpc

from service.api.problems import Problem, headers_of, problem_of
from tracehouse.errors import ServiceError

# The problem document, as ASCII, among the trailing metadata.
PROBLEM_KEY = "problem"
# Clients take 8 KiB of metadata by themselves, and the text below comes beside it.
_PROBLEM_MAX_BYTES = 4096
_DETAIL_MAX_BYTES = 1200  # of a detail, and of a remedy, as gRPC writes them: three for each byte that is not ASCII
_SHORT = 200  # characters

_BY_HTTP_STATUS = {
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    408: grpc.StatusCode.DEADLINE_EXCEEDED,
    409: grpc.StatusCode.FAILED_PRECONDITION,
    412: grpc.StatusCode.FAILED_PRECONDITION,
    413: grpc.StatusCode.RESOURCE_EXHAUSTED,
    428: grpc.StatusCode.FAILED_PRECONDITION,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    501: grpc.StatusCode.UNIMPLEMENTED,
    502: grpc.StatusCode.UNAVAILABLE,
    503: grpc.StatusCode.UNAVAILABLE,
    504: grpc.StatusCode.DEADLINE_EXCEEDED,
}


def problem_of_call(error: ServiceError, path: str, request_id: str) -> Problem:
    return problem_of(error.failure(), instance=path, request_id=request_id)


def status_code_of(problem: Problem) -> grpc.StatusCode:
    default = grpc.StatusCode.INVALID_ARGUMENT if problem.status < 500 else grpc.StatusCode.INTERNAL
    return _BY_HTTP_STATUS.get(problem.status, default)


def details_of(problem: Problem) -> str:
    """Return what clients show: what is wrong, and what to do about it."""
    detail = _cut(problem.detail)
    return detail if problem.remedy is None else f"{detail}. {_cut(problem.remedy)}"


def metadata_of(error: ServiceError, problem: Problem) -> dict[str, str]:
    """Return the trailing metadata. A document that is too long for it has no further members, and a short detail."""
    headers = {name.lower(): value for name, value in headers_of(error).items() if name != "Connection"}
    document = json.dumps(problem.model_dump(exclude_none=True), default=str)
    if len(document) > _PROBLEM_MAX_BYTES:
        standard = problem.model_dump(exclude_none=True, include={*Problem.model_fields})
        document = json.dumps({name: _short(value) for name, value in standard.items()})
    return {**headers, PROBLEM_KEY: document}


def _short(value: object) -> object:
    return value[:_SHORT] if isinstance(value, str) else value


def _cut(text: str) -> str:
    kept = text[:_DETAIL_MAX_BYTES]
    while len(quote(kept, safe=printable, errors="replace")) > _DETAIL_MAX_BYTES:
        kept = kept[: len(kept) * 3 // 4]
    return kept
