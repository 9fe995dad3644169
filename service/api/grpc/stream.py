"""A call that is a stream of requests, each of which passes what a call of its own would.

Replies come in the order of the requests, as Triton has it for models with one reply to each. What is wrong with one
request is its reply, and the stream goes on. It ends with what is wrong with its caller, or with the service.

A stream is a connection to places and turns: without a request it makes room for others, and what it holds in memory is
counted as that of as many calls. A client that leaves its replies unread holds what they hold, as with a call, and has
no more of its messages read.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from time import monotonic

from grpc import aio

from service.api.context import AppContext
from service.api.grpc import infer_reply
from service.api.grpc.capacity import Capacity
from service.api.grpc.exchange import Exchange
from service.api.grpc.infer_request import find_id
from service.api.grpc.peer import Peer
from service.api.grpc.request import Request
from service.api.grpc.statuses import PROBLEM_KEY, details_of, metadata_of, problem_of_call
from service.api.http.access import REFUSED_AFTER_S
from service.api.http.access_log import choose_request_id
from service.api.http.places import Place
from service.api.problems import StreamEnded
from service.api.waiting import POLL_S
from service.domain.api_key import Scope
from service.domain.errors import RateLimited, ShuttingDown, TooMuchArrives
from service.log import http_request_id
from tracehouse.errors import ServiceError

# Requests of one stream that are read, and whose replies are not yet sent. Chosen: enough of them to join to a batch,
# and a client that reads nothing has no more replies than these wait for it.
_IN_FLIGHT_MAX = 16
# A stream that waits for its client's next message makes room, if others need what it holds meanwhile, after this time.
# Chosen: a message of 16 MiB arrives within it over a link of 27 Mbit/s.
_KEPT_S = 5.0

log = logging.getLogger(__name__)


class Stream:
    """Has a place, also while nothing is asked, and one more for each request beside the first."""

    def __init__(
        self,
        path: str,
        context: AppContext,
        rpc: "aio.ServicerContext[bytes, bytes]",
        capacity: Capacity,
        scope: Scope,
    ) -> None:
        self._context = context
        self._peer = Peer(path, context, rpc, capacity.places)
        self._capacity = capacity
        self._scope = scope
        self._begun_at = self._replied_at = monotonic()
        self._listens_since: float | None = None
        self._turns = AsyncExitStack()  # those in which a message is waited for
        self._end: ServiceError | None = None  # why the service ends the stream
        self._reading: asyncio.Task[None] | None = None
        self._count = 0
        self._in_flight: set[_Message] = set()
        self._replied = asyncio.Event()
        self._replies: asyncio.Queue[_Message | Exception | None] = asyncio.Queue()  # in the order of the requests
        rpc.add_done_callback(lambda _: self._peer.leave())  # type: ignore[arg-type] # as in Call

    async def answer(self, respond: Callable[[Request], Awaitable[bytes]]) -> None:
        """Answer every request, or end the call with what is wrong."""
        http_request_id.set(self._peer.request_id)
        exchange = Exchange()
        try:
            await exchange.run(self._answer_each(respond), self._peer.abort)
        finally:
            # Not before: until the call has ended, gRPC may still receive a message that is no longer waited for.
            await self._turns.aclose()
            self._log_end(exchange.status)
        self._peer.rpc.set_trailing_metadata(tuple(self._peer.trailing.items()))

    async def _answer_each(self, respond: Callable[[Request], Awaitable[bytes]]) -> None:
        await self._open()
        self._reading = asyncio.create_task(self._read(respond))
        watching = asyncio.create_task(self._watch())
        try:
            await self._write()
        finally:
            tasks = [self._reading, watching, *(each.answering for each in self._in_flight if each.answering)]
            for task in tasks:
                task.cancel()
            try:
                # Of a client that is killed, gRPC says so twice: its write fails, and the call is cancelled meanwhile.
                await asyncio.gather(*tasks, return_exceptions=True)
            finally:
                for each in [*self._in_flight]:
                    self._let_go(each)

    async def _open(self) -> None:
        """Let the caller in. That counts as its first request."""
        await self._peer.admit(self._scope)
        await self._peer.rpc.send_initial_metadata((("x-request-id", self._peer.request_id),))
        self._peer.place.end()
        self._peer.on_made_room(lambda: self._stop(StreamEnded("others needed the place of a stream without requests")))

    async def _write(self) -> None:
        """Send the replies in the order of the requests. Raises why the stream ends."""
        while (message := await self._replies.get()) is not None:
            if isinstance(message, Exception):
                raise message
            assert message.answering is not None
            await self._peer.rpc.write(await message.answering)
            self._let_go(message)

    async def _read(self, respond: Callable[[Request], Awaitable[bytes]]) -> None:
        """Begin to answer each message; then have the stream end, as soon as all of them are answered."""
        end: Exception | None = None
        try:
            await self._read_messages(respond)
        except asyncio.CancelledError:
            if self._end is None:
                raise
            end = self._end
        except Exception as error:  # noqa: BLE001 - raised behind the replies
            end = error
        self._replies.put_nowait(end)

    async def _read_messages(self, respond: Callable[[Request], Awaitable[bytes]]) -> None:
        while True:
            while len(self._in_flight) >= _IN_FLIGHT_MAX:
                await self._wait_for_reply()
            if (message := await self._listen()) is None:
                return
            message.place = self._own_place()
            await self._admit(message)
            message.place = message.place or await self._find_place()
            message.answering = asyncio.create_task(message.answer(respond))
            self._replies.put_nowait(message)

    async def _listen(self) -> "_Message | None":
        """Return the next message, whose bytes are counted; None if the client sends no more. Raises TooMuchWorkWaits.

        A stream that waits counts as one whose message arrives: of that, gRPC says nothing before all of it is there.
        """
        await self._turns.enter_async_context(self._capacity.listenings.turn(self._peer.tenant))
        await self._turns.enter_async_context(self._capacity.readings.turn(self._peer.tenant))
        self._listens_since = monotonic()
        text: object = await self._peer.rpc.read()
        self._listens_since = None
        message = self._take(text) if isinstance(text, bytes) else None
        await self._turns.aclose()
        return message

    def _take(self, text: bytes) -> "_Message":
        self._count += 1
        message = _Message(self._context, self._peer, self._count, text, self._capacity.limits.message_max_bytes)
        self._in_flight.add(message)
        message.hold()
        return message

    async def _admit(self, message: "_Message") -> None:
        """Count the message as a request, or have it refused. Raises what says that the caller's key is none now."""
        key = await self._peer.check_key(self._scope)
        try:
            if self._count > 1:
                self._peer.count(key)
        except RateLimited as error:
            message.refuse(error)

    def _own_place(self) -> Place | None:
        """Return the stream's place, unless one of its requests has it."""
        if any(each.place is self._peer.place for each in self._in_flight):
            return None
        return self._peer.resume_place()

    async def _find_place(self) -> Place:
        """Return a place for one more request: that of the stream, or a further one, as soon as there is one."""
        while (place := self._own_place() or self._peer.find_place()) is None:
            await self._wait_for_reply()
        return place

    def _let_go(self, message: "_Message") -> None:
        self._in_flight.discard(message)
        message.close()
        if message.place is not None:
            self._free(message.place)
        self._replied_at = monotonic()
        self._replied.set()

    def _free(self, place: Place) -> None:
        """Free the place, or that of another request, which takes this one if it is the stream's own.

        For the own place makes room for others while no request has it, and the stream ends then.
        """
        own = self._peer.place
        if place is not own:
            place.leave()
            return
        for each in self._in_flight:
            if each.place is not None:
                each.place.leave()
                each.place = own
                return
        own.end()

    async def _wait_for_reply(self) -> None:
        """Return when one more request is answered."""
        self._replied.clear()
        await self._replied.wait()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(POLL_S)
            if (reason := self._reason_to_stop()) is not None:
                self._stop(reason)

    def _reason_to_stop(self) -> ServiceError | None:
        limits, now = self._capacity.limits, monotonic()
        if self._context.stopping.is_set():
            return ShuttingDown("the service stops")
        if now - self._begun_at > limits.stream_max_s:
            return StreamEnded(f"a stream is open for {limits.stream_max_s:g} s at most", limit_s=limits.stream_max_s)
        if self._listens_since is None:
            return None
        if not self._in_flight and now - max(self._listens_since, self._replied_at) > limits.stream_idle_s:
            return StreamEnded(f"nothing was asked for {limits.stream_idle_s:g} s", limit_s=limits.stream_idle_s)
        if now - self._listens_since > _KEPT_S and self._is_wanted():
            return StreamEnded(f"others needed what the stream holds, and no message came for {_KEPT_S:g} s")
        return None

    def _is_wanted(self) -> bool:
        turns = (self._capacity.listenings, self._capacity.readings)
        return any(each.is_wanted(self._peer.tenant) for each in turns)

    def _stop(self, reason: ServiceError) -> None:
        """Read no more, and end the stream once what was read is answered."""
        if self._end is None and self._reading is not None:
            self._end = reason
            self._reading.cancel()

    def _log_end(self, status: int) -> None:
        """Log the stream itself. Its requests have lines of their own."""
        seconds = round(monotonic() - self._begun_at, 6)
        ended = {"path": self._peer.path, "status": status, "seconds": seconds, "requests": self._count}
        log.info("stream ended", extra={**ended, **self._peer.logged})


class _Message(Request):
    """One request of a stream. Its id is that of the stream, and its number there."""

    def __init__(self, context: AppContext, peer: Peer, number: int, text: bytes, max_bytes: int) -> None:
        super().__init__(context, peer, choose_request_id(f"{peer.request_id}.{number}"), max_bytes)
        self.place: Place | None = None
        self.answering: asyncio.Task[bytes] | None = None
        self._text = text
        self._refusal: ServiceError | None = None
        self._refused_id = ""

    def hold(self) -> None:
        """Count the message's bytes, or have it refused."""
        try:
            self._arriving.reach(self.tenant, len(self._text))
        except TooMuchArrives as error:
            self.refuse(error)

    def refuse(self, error: ServiceError) -> None:
        """Answer with this, and forget the message."""
        # The frames of its traceback would keep the message.
        self._refusal, self._refused_id = error.with_traceback(None), self._refused_id or find_id(self._text)
        self._text = b""
        self._arriving.close()

    def close(self) -> None:
        """Also forget the message and its reply: the stream knows its last message until there is another one."""
        super().close()
        self._text, self.answering = b"", None

    async def answer(self, respond: Callable[[Request], Awaitable[bytes]]) -> bytes:
        """Return the reply, or one that says what is wrong."""
        return await self._answer(respond, has_span=True)

    async def read(self) -> bytes:
        return self._text

    async def _admit(self) -> None:
        if self._refusal is None:
            return
        if isinstance(self._refusal, RateLimited):
            await asyncio.sleep(REFUSED_AFTER_S)
        raise self._refusal

    async def _fail(self, error: ServiceError) -> bytes:
        self.context.exchanges.count_problem(error)
        problem = problem_of_call(error, self._peer.path, self._request_id)
        document = metadata_of(error, problem)[PROBLEM_KEY]
        return infer_reply.write_failure(details_of(problem), self._refused_id or find_id(self._text), document)
