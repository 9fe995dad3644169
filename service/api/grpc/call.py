"""A call that is one request: one message, and one reply."""

import asyncio
from collections.abc import Awaitable, Callable

from grpc import aio

from service.api.context import AppContext
from service.api.grpc.capacity import Capacity
from service.api.grpc.peer import Peer
from service.api.grpc.request import Request
from service.api.problems import RequestTimeout
from service.domain.api_key import Scope
from service.domain.errors import UploadTruncated
from tracehouse.errors import ServiceError


class Call(Request):
    """Without a `scope`, anybody may call."""

    def __init__(
        self,
        path: str,
        context: AppContext,
        rpc: "aio.ServicerContext[bytes, bytes]",
        capacity: Capacity,
        scope: Scope | None,
    ) -> None:
        peer = Peer(path, context, rpc, capacity.places)
        super().__init__(context, peer, peer.request_id, capacity.limits.message_max_bytes)
        self._readings = capacity.readings
        self._scope = scope
        rpc.add_done_callback(self._leave)  # type: ignore[arg-type] # the stub names a class that is no protocol

    async def answer(self, respond: Callable[[Request], Awaitable[bytes]]) -> bytes:
        """Return the reply, or end the call with what is wrong."""
        # What a machine asks every few seconds has no span.
        reply = await self._answer(respond, has_span=self._scope is not None)
        self._peer.rpc.set_trailing_metadata(tuple(self._peer.trailing.items()))
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

    async def _receive(self) -> bytes:
        limit_s = self.context.limits.request_idle_s
        try:
            async with asyncio.timeout(limit_s):
                message = await self._peer.rpc.read()
        except TimeoutError:
            raise RequestTimeout(f"the message was not there after {limit_s:g} s", limit_s=limit_s) from None
        if not isinstance(message, bytes):  # the end of the call
            raise UploadTruncated("the call ended before its message")
        return message

    async def _admit(self) -> None:
        await self._peer.admit(self._scope)

    async def _fail(self, error: ServiceError) -> bytes:
        return await self._peer.abort(error)

    def _leave(self, _: object) -> None:
        self._peer.leave()
        self.close()
