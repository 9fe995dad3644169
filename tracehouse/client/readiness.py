"""Readiness: whether a service that is starting can be asked already."""

import socket
import ssl
import sys
import time
from collections.abc import Iterator

import httpx

from tracehouse.client.errors import NotSendable

PATH = "/readyz"
PROBE_TIMEOUT = httpx.Timeout(5)
# Nobody means to wait for a day.
WAIT_MAX_S = 3600.0
_FIRST_PAUSE_S, _PAUSE_MAX_S = 0.1, 1.0
# A proxy answers so while nothing is behind it, and the service while it cannot work yet.
_NOT_YET = (502, 503, 504)
_NOBODY_YET = (httpx.NetworkError, httpx.RemoteProtocolError, httpx.TimeoutException)

Outcome = int | httpx.TransportError


class Readiness:
    """Waits up to `wait_s` seconds, once, for the service at `url`, and says so on standard error."""

    def __init__(self, url: str, wait_s: float) -> None:
        if not 0 <= wait_s <= WAIT_MAX_S:
            raise NotSendable(f"a service is waited for up to {WAIT_MAX_S:.0f} seconds, and not {wait_s}")
        self._url = url
        self._wait_s = wait_s
        self._until: float | None = None
        self._pause_s = _FIRST_PAUSE_S
        self.is_due = wait_s > 0

    def pause_after(self, outcome: Outcome) -> float | None:
        """Return how long to pause before the next probe, whose status or error this is; None if no more is needed.

        Raises the error when the time is over.
        """
        why = _why_not_yet(outcome)
        now = time.monotonic()
        if self._until is None:
            self._until = now + self._wait_s
            if why is not None:
                sys.stderr.write(f"Waiting up to {self._wait_s:g} s for the service at {self._url}: {why}\n")
        if why is None or now >= self._until:
            self.is_due = False
            if why is not None and isinstance(outcome, Exception):
                raise outcome
            return None
        pause_s = min(self._pause_s, self._until - now)
        self._pause_s = min(2 * self._pause_s, _PAUSE_MAX_S)
        return pause_s


def probe(http: httpx.Client) -> Outcome:
    """Ask whether the service is ready, and return the status or the error."""
    try:
        return http.get(PATH, timeout=PROBE_TIMEOUT).status_code
    except httpx.TransportError as error:
        return error


def wait_until_ready(http: httpx.Client, readiness: Readiness) -> None:
    """Wait for the service as long as it is wanted. Raises httpx.TransportError if nobody answers until then."""
    while readiness.is_due:
        time.sleep(readiness.pause_after(probe(http)) or 0)


async def probe_async(http: httpx.AsyncClient) -> Outcome:
    """Ask in an event loop whether the service is ready, and return the status or the error."""
    try:
        return (await http.get(PATH, timeout=PROBE_TIMEOUT)).status_code
    except httpx.TransportError as error:
        return error


def _why_not_yet(outcome: Outcome) -> str | None:
    """Return why the service may be starting; None if it is there, or if waiting would not help."""
    if isinstance(outcome, int):
        return f"it answers with {outcome}" if outcome in _NOT_YET else None
    if not isinstance(outcome, _NOBODY_YET) or _is_wrong_address(outcome):
        return None
    return str(outcome) or type(outcome).__name__


def _is_wrong_address(error: BaseException) -> bool:
    """Whether there is no such host, or one without TLS or with another's certificate, however long one waits."""
    causes = [*causes_of(error)]
    if any(isinstance(one, ssl.SSLEOFError) for one in causes):  # a balancer has nothing behind it yet
        return False
    return any(isinstance(one, socket.gaierror | ssl.SSLError) for one in causes)


def causes_of(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error, what it came of, and so on."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
