"""A delivery: one HTTP request with one message, in bounded time, of whose reply only the status is read."""

import socket
import ssl
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from http.client import HTTPConnection, HTTPException

from service.domain.errors import WebhookUrlRefused
from service.domain.webhook import Message, sign
from service.webhooks.target import Network, Target

# All together: Standard Webhooks recommends 15 to 30 s.
_WITHIN_S = 15.0


def deliver(message: Message, networks: Sequence[Network], within_s: float = _WITHIN_S) -> int | str:
    """Send a message; return the status of the reply, or why there was none. Redirects are not followed."""
    try:
        target = Target.parse(message.url)
        address = target.resolve(networks)
    except WebhookUrlRefused as error:
        return error.detail
    except (OSError, UnicodeError):
        return "the host's name could not be resolved"
    connection = _Pinned(target, str(address), within_s)
    watchdog = threading.Timer(within_s, connection.cut)
    watchdog.daemon = True
    watchdog.start()
    try:
        connection.request("POST", target.path, body=message.body.encode(), headers=_headers(message))
        status = connection.getresponse().status
        # Where the reply is cut off, http.client takes its head to be whole.
        return f"there was no reply within {within_s:g} s" if connection.was_cut else status
    except TimeoutError:
        return f"there was no reply within {within_s:g} s"
    except ssl.SSLError as error:
        return f"TLS failed ({error.reason or 'no certificate'})"
    except (OSError, HTTPException, ValueError):
        return f"there was no reply within {within_s:g} s" if connection.was_cut else "the connection failed"
    finally:
        watchdog.cancel()
        connection.close()


def _headers(message: Message) -> dict[str, str]:
    timestamp = int(time.time())
    return {
        "content-type": "application/json",
        "user-agent": "tracehouse",
        "webhook-id": message.id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": sign(message.secret, message.id, timestamp, message.body.encode()),
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
        self.sock = socket.create_connection((self._address, self._target.port), self._within_s)
        if self._target.is_tls:
            context = ssl.create_default_context()
            # Kept before the handshake, so that it can be cut off, too.
            self.sock = context.wrap_socket(self.sock, server_hostname=self._target.host, do_handshake_on_connect=False)
            self.sock.do_handshake()

    def cut(self) -> None:
        self.was_cut = True
        with suppress(OSError, AttributeError):
            self.sock.shutdown(socket.SHUT_RDWR)
