"""A fast exchange: a request that is answered without the app, unless it is handed over to it."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol

from uvicorn._types import HTTPScope

from service.api.http.places import Place

# After its head, the body of a request that the fast path takes is waited for so long. Most bodies come at once.
WHOLE_WITHIN_S = 1.0

# Gets the status of a reply, its headers and its body.
Reply = Callable[[int, bytes, bytes], object]
HandOver = Callable[[], object]


class FastRequest(Protocol):
    """A request that may be answered without the app. Handed over, it is to have the `state` in the app's scope."""

    @property
    def state(self) -> Mapping[str, object]: ...

    def answer(self, body: bytes, reply: Reply, hand_over: HandOver) -> None:
        """Call `reply` with the status, the headers and the body of a reply, or `hand_over`, now or later, once."""

    def leave(self) -> None:
        """The client has gone: no answer is wanted."""


class PlainHead(Protocol):
    """A head whose requests may be answered without the app. All requests with the same bytes as a head share it."""

    def takes(self, body_bytes: int) -> bool:
        """Whether a request may have a body of so many bytes."""

    def request(self, place: Place, client: str) -> FastRequest:
        """Return one request with this head, from the client of this address."""


class FastPath(Protocol):
    """What answers requests without the app: the same as the app would."""

    def read(self, scope: HTTPScope) -> PlainHead | None:
        """Return the head of a request that may be answered so; its body has not arrived yet."""


class FastExchange:
    """`reply` writes the status, headers and body of a reply; `hand_over` starts the app on the request, once."""

    def __init__(self, request: FastRequest, reply: Reply, hand_over: HandOver) -> None:
        self.request = request
        self._reply = reply
        self._start_app = hand_over
        self._is_asked = False
        self._wait: asyncio.TimerHandle | None = None

    def ask(self, body: bytes) -> None:
        """Ask for the answer to the whole request, unless that was done, or the app has the request."""
        if not self._is_asked:
            self._end_wait()
            self.request.answer(body, self._write, self.hand_over)

    def go_on(self, reply: Reply, hand_over: HandOver) -> None:
        """Answer it in another way from now on."""
        self._reply, self._start_app = reply, hand_over

    def limit_wait(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let the app wait for a body that does not come at once: it knows how slow a body may be."""
        if self._wait is None and not self._is_asked:
            self._wait = loop.call_later(WHOLE_WITHIN_S, self.hand_over)

    def hand_over(self) -> None:
        """Let the app answer."""
        self._end_wait()
        self._start_app()

    def leave(self) -> None:
        """The client has gone. Of a request that is not whole yet, that is told to the app."""
        if self._is_asked:
            self.request.leave()
        else:
            self.hand_over()

    def _end_wait(self) -> None:
        self._is_asked = True
        if self._wait is not None:
            self._wait.cancel()

    def _write(self, status: int, head: bytes, body: bytes) -> None:
        self._reply(status, head, body)
