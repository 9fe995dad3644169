"""Upgrades: a request that asks for another protocol is answered in HTTP/1.1, as RFC 9110, section 7.8, allows.

Java's client asks for HTTP/2 with its first request to each host, whether that has a body or not.
"""

from collections.abc import Callable, Sequence

import httptools

_CONNECT = b"CONNECT"
# Headers that only say which other protocol is wanted.
_ASKING = (b"upgrade", b"http2-settings")


class PlainParser:
    """Parses as uvicorn's parser does, and goes on where a request asks for another protocol.

    By itself httptools takes such a request for whole when its head is, and its body for what comes next on the
    connection: uvicorn would read a request out of the body. So the head is parsed once more, without what asks. A new
    parser does that: the old one passes over all that follows a head that ends the connection.
    """

    def __init__(self, protocol: object, head: Callable[[], bytes]) -> None:
        self._protocol = protocol
        self._head = head
        self._parser = self._new_parser()

    @property
    def asks_for_upgrade(self) -> bool:
        """Whether the head that was just parsed does, and comes once more. Raises ValueError for CONNECT."""
        if self.get_method() == _CONNECT:
            raise ValueError("this is no proxy")
        return bool(self._parser.should_upgrade())

    def get_http_version(self) -> str:
        return self._parser.get_http_version()

    def get_method(self) -> bytes:
        return self._parser.get_method()

    def should_keep_alive(self) -> bool:
        return self._parser.should_keep_alive()

    def should_upgrade(self) -> bool:
        return False

    def feed_data(self, data: bytes) -> None:
        while True:
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                data = data[upgrade.args[0] :]
                head = self._head()
                self._parser = self._new_parser()
                self._parser.feed_data(head)
            else:
                return

    def _new_parser(self) -> httptools.HttpRequestParser:
        parser = httptools.HttpRequestParser(self._protocol)
        parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's
        return parser


def plain_head(method: bytes, url: bytes, version: str, headers: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Return a head that asks for no other protocol. The names of headers are in lower case."""
    lines = [b"%b %b HTTP/%b" % (method, url, version.encode())]
    for name, value in headers:
        if name == b"connection":
            options = [each.strip() for each in value.split(b",")]
            lines.append(b"connection: " + b", ".join(one for one in options if one.lower() not in _ASKING))
        elif name not in _ASKING:
            lines.append(b"%b: %b" % (name, value))
    return b"\r\n".join([*lines, b"", b""])
