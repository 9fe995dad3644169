"""A fast exchange: a request that is answered without the app, unless it is handed over to it."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from uvicorn._types import HTTPScope

# After its head, the body of a request that the fast path takes is waited for so long. Most bodies come at once.
WHOLE_WITHIN_S = 1.0


class FastRequest(Protocol):
    """A request that may be answered without the app."""

    def answer(self, body: bytes, reply: Callable[[bytes, bytes], object], hand_over: Callable[[], object]) -> None:
        """Call `reply` with the headers and the body of a reply, or `hand_over`, now or later, once."""

    def leave(self) -> None:
        """The client has gone: no answer is wanted."""


class FastPath(Protocol):
    """What answers requests without the app: the same as the app would."""

    def take(self, scope: HTTPScope) -> FastRequest | None:
        """Return a request whose head says that it may be answered so; its body has not arrived yet."""


class FastExchange:
    """`reply` writes the headers and the body of a reply; `hand_over` starts the app on the request, once."""

    def __init__(
        self, request: FastRequest, reply: Callable[[bytes, bytes], object], hand_over: Callable[[], object]
    ) -> None:
        self._request = request
        self._reply = reply
        self._start_app = hand_over
        self._is_asked = False
        self._wait: asyncio.TimerHandle | None = None

    def ask(self, body: bytes) -> None:
        """Ask for the answer to the whole request, unless that was done, or the app has the request."""
        if not self._is_asked:
            self._end_wait()
            self._request.answer(body, self._reply, self._hand_over)

    def limit_wait(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let the app wait for a body that does not come at once: it knows how slow a body may be."""
        if self._wait is None and not self._is_asked:
            self._wait = loop.call_later(WHOLE_WITHIN_S, self._hand_over)

    def leave(self) -> None:
        """The client has gone. Of a request that is not whole yet, that is told to the app."""
        if self._is_asked:
            self._request.leave()
        else:
            self._hand_over()

    def _end_wait(self) -> None:
        self._is_asked = True
        if self._wait is not None:
            self._wait.cancel()

    def _hand_over(self) -> None:
        self._end_wait()
        self._start_app()
