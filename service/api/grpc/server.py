"""The server that speaks the Open Inference Protocol over gRPC, on a port of its own beside that of HTTP."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

import grpc
from grpc import aio

from service.api.context import AppContext
from service.api.grpc.call import Call
from service.api.grpc.capacity import Capacity
from service.api.grpc.limits import GrpcLimits
from service.api.grpc.methods import METHODS, Method, refuse_unknown
from service.api.grpc.stream import Stream
from service.api.http.connection import HEAD_MAX_BYTES

# Chosen: what clients have on one connection at a time are some dozen calls, and others wait there.
_CONNECTION_CALLS_MAX = 100
# A client that answers no ping for so long is gone.
_PING_EVERY_S, _PING_WAIT_S = 60, 20
# Clients may ping as often as this, and are cut after some more. gRPC's own clients send at most one in 10 s.
_PINGED_EVERY_S = 5
# A client opens another connection after this time, and calls on the old one have as long as one may take. So a reply
# that nobody reads does not stay for ever: gRPC itself waits for its reader without end.
_CONNECTION_AGE_S = 600
_CONNECTION_IDLE_S = 120
# Chosen: of a tenant's TENANT_CONNECTIONS_MAX calls together, half of what TENANT_ARRIVING_MAX_BYTES lets arrive.
_UNREAD_BYTES = 2**18


def _is_worth_a_line(record: logging.LogRecord) -> bool:
    """Whether gRPC's own log says more than that a client went while its reply was sent."""
    return not record.getMessage().startswith("ExecuteBatchError")


class PortTaken(Exception):
    """The port for gRPC cannot be listened on."""


class GrpcServer:
    """Starts and stops in the event loop that the service runs in, once."""

    def __init__(self, context: AppContext, limits: GrpcLimits) -> None:
        self.address = ""
        self._context = context
        self._limits = limits
        self._capacity = Capacity.of(limits)
        context.connections["grpc"] = self._capacity.places.count
        self._server: aio.Server | None = None
        self._stopped: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen. Raises PortTaken."""
        logging.getLogger("grpc._cython.cygrpc").addFilter(_is_worth_a_line)
        server = aio.server(
            handlers=[_Methods(self._answer, self._answer_stream)],
            options=self._options(),
            maximum_concurrent_rpcs=self._limits.calls_max,
        )
        host = f"[{self._limits.host}]" if ":" in self._limits.host else self._limits.host
        try:
            port = server.add_insecure_port(f"{host}:{self._limits.port}")
        except RuntimeError as error:
            raise PortTaken(f"{host}:{self._limits.port} cannot be listened on") from error
        await server.start()
        self._server = server
        self.address = f"{host}:{port}"

    def begin_stop(self) -> None:
        """Take no more calls; those that run have the service's grace to end."""
        if self._server is not None and self._stopped is None:
            self._stopped = asyncio.create_task(self._server.stop(self._limits.stop_grace_s))

    async def stop(self) -> None:
        """Return when no call runs any more."""
        self.begin_stop()
        if self._stopped is not None:
            await self._stopped

    def _options(self) -> list[tuple[str, int | str]]:
        return [
            ("grpc.so_reuseport", 0),  # else a port that another service has would be shared with it
            ("grpc.max_receive_message_length", self._limits.message_max_bytes),
            ("grpc.max_send_message_length", -1),  # the service limits its answers itself
            # What a packed message unpacks to has no limit in gRPC.
            ("grpc.compression_enabled_algorithms_bitset", 1),
            # Else a fast client sends all of a message that waits for its turn, and nobody counts it: so it is so much,
            # and the rest when the message is read. More spares larger calls a round trip on links with delay.
            ("grpc.http2.bdp_probe", 0),
            ("grpc.http2.lookahead_bytes", _UNREAD_BYTES),
            ("grpc.max_metadata_size", HEAD_MAX_BYTES // 4),
            ("grpc.absolute_max_metadata_size", HEAD_MAX_BYTES // 4),
            ("grpc.max_allowed_incoming_connections", self._limits.connections_max),
            ("grpc.max_concurrent_streams", _CONNECTION_CALLS_MAX),
            ("grpc.server_handshake_timeout_ms", _ms(self._limits.handshake_s)),
            ("grpc.max_connection_idle_ms", _ms(_CONNECTION_IDLE_S)),
            ("grpc.max_connection_age_ms", _ms(_CONNECTION_AGE_S)),
            ("grpc.max_connection_age_grace_ms", _ms(self._limits.stream_max_s + self._limits.call_max_s)),
            ("grpc.keepalive_time_ms", _ms(_PING_EVERY_S)),
            ("grpc.keepalive_timeout_ms", _ms(_PING_WAIT_S)),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.min_recv_ping_interval_without_data_ms", _ms(_PINGED_EVERY_S)),
            ("grpc.http2.max_ping_strikes", 2),
        ]

    async def _answer(self, path: str, method: Method, _: object, rpc: "aio.ServicerContext[bytes, bytes]") -> bytes:
        call = Call(path, self._context, rpc, self._capacity, method.scope)
        return await call.answer(method.respond)

    async def _answer_stream(
        self, path: str, method: Method, _: object, rpc: "aio.ServicerContext[bytes, bytes]"
    ) -> None:
        assert method.scope is not None
        await Stream(path, self._context, rpc, self._capacity, method.scope).answer(method.respond)


class _Methods(grpc.GenericRpcHandler):
    """Finds the method of a path.

    Each is given to gRPC as one that takes a stream of messages, for which it waits only when it is asked to: so a call
    can be refused before its message has come. Messages stay the bytes that they are.
    """

    def __init__(self, answer: Callable[..., Awaitable[bytes]], answer_stream: Callable[..., Awaitable[None]]) -> None:
        self._answer = answer
        self._answer_stream = answer_stream

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes]":
        path = handler_call_details.method
        method = METHODS.get(path) or refuse_unknown(path)
        if method.is_stream:
            return grpc.stream_stream_rpc_method_handler(partial(self._answer_stream, path, method))
        return grpc.stream_unary_rpc_method_handler(partial(self._answer, path, method))


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
