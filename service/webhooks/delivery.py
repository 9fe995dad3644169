"""A delivery: one HTTP request with one message, in bounded time, of whose reply only the status is read."""

import re
import socket
import ssl
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from http.client import BadStatusLine, HTTPConnection, HTTPException, LineTooLong

from service import telemetry
from service.domain.errors import WebhookUrlRefused
from service.domain.webhook import Message, sign
from service.webhooks.target import Address, Network, Target

# All together: Standard Webhooks recommends 15 to 30 s.
_WITHIN_S = 15.0
# Of the reply's head, with those of the interim replies before it.
_HEAD_MAX_BYTES = 64 * 1024
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([1-9][0-9][0-9])(?: [^\n]*)?\r?\n")
_FINAL = 200


def deliver(message: Message, networks: Sequence[Network], within_s: float = _WITHIN_S) -> int | str:
    """Send a message; return the status of the reply, or why there was none. Redirects are not followed."""
    until = time.monotonic() + within_s
    try:
        target = Target.parse(message.url)
        address = _look_up(target, networks, within_s)
    except WebhookUrlRefused as error:
        return error.detail
    except (OSError, UnicodeError):
        return "the host's name could not be resolved"
    left_s = max(until - time.monotonic(), 0.1)
    connection = _Pinned(target, str(address), left_s)
    watchdog = threading.Timer(left_s, connection.cut)
    watchdog.daemon = True
    watchdog.start()
    try:
        connection.request("POST", target.path, body=message.body.encode(), headers=_headers(message))
        return _read_status(connection.sock)
    except (OSError, HTTPException, ValueError) as error:
        if connection.was_cut or isinstance(error, TimeoutError):
            return f"there was no reply within {within_s:g} s"
        if isinstance(error, ssl.SSLError):
            return f"TLS failed ({error.reason or 'no certificate'})"
        return "the connection failed"
    finally:
        watchdog.cancel()
        connection.close()


def _look_up(target: Target, networks: Sequence[Network], within_s: float) -> Address:
    """Resolve the host on a thread of its own: how long that takes, its name servers decide, and no limit cuts it."""
    found: Future[Address] = Future()

    def resolve() -> None:
        try:
            found.set_result(target.resolve(networks))
        except (OSError, ValueError, WebhookUrlRefused) as error:
            found.set_exception(error)

    threading.Thread(target=resolve, name="webhook host", daemon=True).start()
    return found.result(within_s)


def _read_status(sock: socket.socket) -> int:
    """Return the status of the final reply, once its head is whole. Raises HTTPException."""
    left = _HEAD_MAX_BYTES
    status = None
    with sock.makefile("rb") as reply:
        while line := reply.readline(left):
            left -= len(line)
            if status is None:
                matched = _STATUS_LINE.fullmatch(line)
                if matched is None:
                    raise BadStatusLine("no status")
                status = int(matched[1])
            elif line in (b"\r\n", b"\n"):
                if status >= _FINAL:
                    return status
                status = None
    raise LineTooLong("head") if left == 0 else BadStatusLine("the head is not whole")


def _headers(message: Message) -> dict[str, str]:
    timestamp = int(time.time())
    return {
        "content-type": "application/json",
        "user-agent": "tracehouse",
        "webhook-id": message.id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": sign(message.secret, message.id, timestamp, message.body.encode()),
        **(telemetry.carry(message.trace_context or {}) or {}),
    }


class _Pinned(HTTPConnection):
    """Connects to an address that was looked at, whatever the host's name means by now."""

    def __init__(self, target: Target, address: str, within_s: float) -> None:
        super().__init__(target.host, target.port, timeout=within_s)
        self._target = target
        self._address = address
        self._within_s = within_s
        self.was_cut = False

    def connect(self) -> None:
        self._use(socket.create_connection((self._address, self._target.port), self._within_s))
        if self._target.is_tls:
            context = ssl.create_default_context()
            # Kept before the handshake, so that it can be cut off, too.
            tls = context.wrap_socket(self.sock, server_hostname=self._target.host, do_handshake_on_connect=False)
            self._use(tls)
            tls.do_handshake()

    def cut(self) -> None:
        self.was_cut = True
        with suppress(OSError, AttributeError):
            # Not that of a socket with TLS, which would let the other thread go on without TLS.
            socket.socket.shutdown(self.sock, socket.SHUT_RDWR)

    def _use(self, sock: socket.socket) -> None:
        self.sock = sock
        if self.was_cut:  # it was, before there was this socket to cut
            raise TimeoutError
