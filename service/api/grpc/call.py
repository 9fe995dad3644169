"""A call: what each one passes, whatever it asks for, as a request over HTTP does in `service.api.http`.

Who calls is known before any of the message is read, so that nobody without a key has the service hold one.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter
from typing import ParamSpec, TypeVar
from urllib.parse import unquote

from grpc import aio
from opentelemetry import trace
from opentelemetry.trace import SpanKind

from service import telemetry
from service.api.context import AppContext
from service.api.grpc.statuses import details_of, metadata_of, problem_of_call, status_code_of
from service.api.held_bytes import Holding
from service.api.http.access import Caller, check_allowance, take_allowance
from service.api.http.access_log import GIVEN_UP, choose_request_id, log_exchange
from service.api.http.bearer import authenticate_by
from service.api.http.body import SMALL_BYTES
from service.api.http.places import Places
from service.api.http.tenant import STRANGERS
from service.api.problems import InternalError, RequestTimeout, TooManyFromAddress, log_failure, status_of
from service.domain.api_key import DEFAULT_TENANT, Scope
from service.domain.errors import UploadTruncated
from service.log import http_request_id
from service.turns import Turns
from tracehouse.errors import AnswerTooLarge, ServiceError

P = ParamSpec("P")
R = TypeVar("R")

# Of the name of a span, which any client may have sent.
_NAME_MAX = 80

log = logging.getLogger(__name__)


class Call:
    """One call, and what it holds until it has ended."""

    def __init__(
        self,
        path: str,
        context: AppContext,
        rpc: "aio.ServicerContext[bytes, bytes]",
        *,
        places: Places,
        readings: Turns,
        message_max_bytes: int,
    ) -> None:
        self.context = context
        self.tenant = STRANGERS
        self.trailing: dict[str, str] = {}
        self._path = path
        self._rpc = rpc
        self._readings = readings
        self._message_max_bytes = message_max_bytes
        self._metadata = rpc.invocation_metadata() or ()
        self._request_id = choose_request_id(next(iter(self._sent("x-request-id")), ""))
        self._logged: dict[str, str] = {}
        self._address = _address(rpc.peer())
        self._arriving, self._unread = Holding(context.arriving), Holding(context.unread)
        self._made_room = False
        self._place = places.enter(self._address, self._make_room)
        self._place.begin()
        rpc.add_done_callback(self._leave)  # type: ignore[arg-type] # the stub names a class that is no protocol

    async def answer(self, respond: Callable[["Call"], Awaitable[bytes]], scope: Scope | None) -> bytes:
        """Return the reply, or end the call with what is wrong. Without a `scope`, anybody may call."""
        if scope is None or not telemetry.is_on():  # what a machine asks every few seconds has no span
            return await self._answer(respond, scope)
        aborted: aio.AbortError
        with telemetry.span(
            self._path[1:_NAME_MAX], _describe(self._path), parent=self._context_sent(), kind=SpanKind.SERVER
        ):
            try:
                return await self._answer(respond, scope)
            except aio.AbortError as error:  # how gRPC ends a call, and no fault of ours
                aborted = error
        raise aborted

    async def _answer(self, respond: Callable[["Call"], Awaitable[bytes]], scope: Scope | None) -> bytes:
        http_request_id.set(self._request_id)
        self.trailing["x-request-id"] = self._request_id
        begun, status = perf_counter(), GIVEN_UP
        try:
            await self._admit(scope)
            reply = await respond(self)
            status = 200
        except ServiceError as error:
            log_failure(error)
            status = status_of(type(error))
            return await self._fail(error)
        except Exception:
            log.exception("the call failed")
            status = 500
            return await self._fail(InternalError("the log has the details under this call's id"))
        finally:
            log_exchange("gRPC", self._path, status, perf_counter() - begun, self._logged)
        self._rpc.set_trailing_metadata(tuple(self.trailing.items()))
        return reply

    async def read(self) -> bytes:
        """Return the message.

        As many messages are read at once as may be in memory: of one, gRPC does not say how large it is, or how much of
        it is there. Raises TooMuchWorkWaits, RequestTimeout, UploadTruncated and TooMuchArrives.
        """
        async with self._readings.turn(self.tenant):
            message = await self._receive()
            self._arriving.reach(self.tenant, len(message))
        return message

    async def parse_aside(self, byte_size: int, work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Do as `service.api.http.body.parse_aside`."""
        if byte_size <= SMALL_BYTES:
            return work(*args, **kwargs)
        return await self.context.parsings.run(self.tenant, work, *args, **kwargs)

    async def go_on_aside(self, byte_size: int, work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Do as `service.api.http.body.go_on_aside`."""
        if byte_size <= SMALL_BYTES:
            return work(*args, **kwargs)
        return await self.context.turns.go_on(self.tenant, work, *args, **kwargs)

    async def run(self, work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Do work on a thread in turn. Raises TooMuchWorkWaits."""
        return await self.context.turns.run(self.tenant, work, *args, **kwargs)

    def hold_reply(self, byte_size: int) -> None:
        """Count so many bytes until the reply has been sent. Raises AnswerTooLarge and TooMuchUnread.

        gRPC copies a message at once, in the event loop, where over HTTP it would go in pieces.
        """
        if byte_size > self._message_max_bytes:
            raise AnswerTooLarge(
                f"the answer has {byte_size} bytes, and a message over gRPC may have {self._message_max_bytes}",
                limit=self._message_max_bytes, byte_size=byte_size,
                remedy="Ask for fewer outputs at a time, or over HTTP; GRPC_MESSAGE_MAX_BYTES is the limit.",
            )  # fmt: skip
        self._unread.reach(self.tenant, byte_size)

    def timeout_s(self, asked_s: float | None) -> float | None:
        """Return within which time an answer is wanted: as it is asked for, or by the call's deadline."""
        return min((each for each in (asked_s, self._rpc.time_remaining()) if each is not None), default=None)

    async def _admit(self, scope: Scope | None) -> None:
        """Find out who calls. Raises what `service.api.http.access` raises, and TooManyConnections."""
        if scope is None:
            self._place.admit(self._address)
        elif not self.context.keys_required:
            self.tenant = DEFAULT_TENANT
            self._place.identify(self.tenant, None)
        else:
            await self._authenticate(scope)

    async def _authenticate(self, scope: Scope) -> None:
        key = await authenticate_by(self._sent("authorization"), self.context)
        if self._made_room:
            raise TooManyFromAddress("others needed the place of this call")
        self.tenant = key.tenant
        self._logged.update(key=key.prefix, tenant=key.tenant)
        allowance = take_allowance(self.context, key)
        self.trailing.update({name.lower(): value for name, value in allowance.headers.items()})
        check_allowance(allowance)
        self._place.identify(key.tenant, self.context.limits.tenant_connections_max)
        Caller(key.tenant, key).require(scope)

    async def _receive(self) -> bytes:
        limit_s = self.context.limits.request_idle_s
        try:
            async with asyncio.timeout(limit_s):
                message = await self._rpc.read()
        except TimeoutError:
            raise RequestTimeout(f"the message was not there after {limit_s:g} s", limit_s=limit_s) from None
        if not isinstance(message, bytes):  # the end of the call
            raise UploadTruncated("the call ended before its message")
        return message

    async def _fail(self, error: ServiceError) -> bytes:
        self.context.exchanges.count_problem(error)
        problem = problem_of_call(error, self._path, self._request_id)
        metadata = tuple({**self.trailing, **metadata_of(error, problem)}.items())
        trace.get_current_span().set_attribute("error.type", problem.code)
        await self._rpc.abort(status_code_of(problem), details_of(problem), metadata)
        raise AssertionError("abort raises")

    def _sent(self, name: str) -> Sequence[str]:
        return [value for key, value in self._metadata if key == name and isinstance(value, str)]

    def _context_sent(self) -> dict[str, str]:
        return {name: value for name in telemetry.CONTEXT for value in self._sent(name)[:1]}

    def _make_room(self) -> None:
        self._made_room = True

    def _leave(self, _: object) -> None:
        self._place.leave()
        self._arriving.close()
        self._unread.close()


def _describe(path: str) -> telemetry.Attributes:
    """Return the names that OpenTelemetry gives to calls of gRPC."""
    service, _, method = path[1:].partition("/")
    return {"rpc.system": "grpc", "rpc.service": service, "rpc.method": method}


def _address(peer: str) -> str:
    """Return the address in what gRPC calls a peer: `ipv4:10.0.0.5:43210` or `ipv6:%5B::1%5D:43210`."""
    return unquote(peer).partition(":")[2].rpartition(":")[0].strip("[]")
