"""What can go wrong for a client, each as an error that says what to do.

ClientError
├─ NotSendable          nothing was sent: the model, an input or an argument cannot be
├─ ServiceUnreachable   nobody answers, or an answer that has begun hardly comes
├─ UnexpectedReply      something else answers, or another release
└─ ProblemError         there is a problem document
   ├─ ServiceRefused    the service refused a request
   │  ├─ KeyRefused         no key, or a wrong one
   │  ├─ NotAllowed         the key may not do this
   │  ├─ NotFound
   │  ├─ InvalidRequest
   │  │  └─ OutsideContract     an inference that the contract does not take
   │  ├─ Conflict           the thing was changed meanwhile, or is in use
   │  ├─ TryLater           too much work at the moment; `retry_after_s`
   │  └─ ServiceFault       a fault of the service
   ├─ TraceFailed       the model could not be traced
   ├─ TraceCancelled
   └─ NotServed         the trace was rejected, so that nothing answers
"""

from collections.abc import Iterator, Mapping
from typing import Any

from tracehouse.errors import ContractViolation, ServiceError, by_slug
from tracehouse.printable_text import printable

Problem = Mapping[str, Any]


class ClientError(Exception):
    """The client could not do what was asked."""


class NotSendable(ClientError, ValueError):
    """The model, an input or an argument cannot be sent."""


class ServiceUnreachable(ClientError, ConnectionError):
    """No service answers."""


class UnexpectedReply(ClientError):
    """The answer is not one that this client knows."""


class ProblemError(ClientError):
    """The service described the problem: `problem` is its document (RFC 9457), `code` the stable name in it."""

    def __init__(self, problem: Problem) -> None:
        super().__init__("\n".join(map(printable, problem_lines(problem))))  # it may quote submitted code
        self.problem = problem

    @property
    def code(self) -> str | None:
        """The stable name of the kind of problem, such as `shape-mismatch`."""
        return self.problem.get("code")

    @property
    def detail(self) -> str | None:
        """What is wrong, in one sentence."""
        return self.problem.get("detail")

    @property
    def remedy(self) -> str | None:
        """What to do about it."""
        return self.problem.get("remedy")


class ServiceRefused(ProblemError):
    """The service refused the request."""


class KeyRefused(ServiceRefused, PermissionError):
    """The service asks for an API key, or does not know the one that was sent."""


class NotAllowed(ServiceRefused, PermissionError):
    """The API key may not do this."""


class NotFound(ServiceRefused, LookupError):
    """There is no such thing on the service."""


class InvalidRequest(ServiceRefused, ValueError):
    """The request says something that cannot be done."""


class OutsideContract(InvalidRequest):
    """The inputs lie outside of what the trace is right for."""


class Conflict(ServiceRefused):
    """The thing was changed meanwhile, or is in use."""


class TryLater(ServiceRefused):
    """The service has too much to do at the moment."""

    def __init__(self, problem: Problem, retry_after_s: float | None = None) -> None:
        super().__init__(problem)
        self.retry_after_s = retry_after_s


class ServiceFault(ServiceRefused):
    """The service made a mistake, or a part of it is not available."""


class TraceFailed(ProblemError):
    """The model could not be traced."""


class TraceCancelled(ProblemError):
    """The trace request was cancelled."""


class NotServed(ProblemError):
    """The trace was rejected, so that nothing answers."""


_BY_STATUS: dict[int, type[ServiceRefused]] = {
    401: KeyRefused,
    403: NotAllowed,
    404: NotFound,
    409: Conflict,
    412: Conflict,
    428: Conflict,
}


def refusal(status: int, problem: Problem, retry_after_s: float | None = None) -> ServiceRefused:
    """Return the error for a reply with this status and this problem document."""
    if status in (429, 503):
        return TryLater(problem, retry_after_s)
    if status >= 500:
        return ServiceFault(problem)
    if issubclass(by_slug().get(str(problem.get("code")), ServiceError), ContractViolation):
        return OutsideContract(problem)
    return _BY_STATUS.get(status, InvalidRequest)(problem)


def outside_contract(error: ContractViolation) -> OutsideContract:
    """Return the client's error for a violation that the client itself found."""
    failure = error.failure()
    document = {"title": error.title(), "code": failure.slug, "detail": failure.detail, "status": 422}
    return OutsideContract({**failure.facts, **document, "remedy": failure.facts.get("remedy", error.remedy())})


def problem_lines(problem: Problem) -> Iterator[str]:
    """Yield a problem as a person reads it: what is wrong, where, and the remedy."""
    code = f" ({problem['code']})" if problem.get("code") else ""
    yield f"{problem.get('title') or 'The request was refused'}{code}"
    errors = problem.get("errors") or []
    yield from (f"  {_location(error)}: {error.get('detail')}" for error in errors)
    if not errors and problem.get("detail"):
        yield f"  {problem['detail']}"
    if problem.get("file"):
        yield f"  {_place(problem)}"
    for name, value in problem.items():
        if name != "errors" and isinstance(value, list) and value and all(isinstance(item, str) for item in value):
            yield f"  {name}: {', '.join(value)}"
    if problem.get("remedy"):
        yield f"  What to do: {problem['remedy']}"


def _location(error: Mapping[str, Any]) -> str:
    return str(error.get("pointer") or error.get("parameter") or "the body")


def _place(problem: Problem) -> str:
    """Return `net.py:10: return x`, or as much of it as the problem has."""
    line = "" if problem.get("line") is None else f":{problem['line']}"
    source = f": {problem['source']}" if problem.get("source") else ""
    return f"{problem['file']}{line}{source}"
