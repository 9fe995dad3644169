"""Head rules: what a request's head must not leave open, so that this service and a proxy before it read it alike."""

from collections.abc import Sequence

Header = tuple[bytes, bytes]


def find_fault(version: str, headers: Sequence[Header]) -> str | None:
    """Return what is wrong with a head by RFC 9112, sections 3.2 and 6.1; None if nothing is.

    `version` is that of HTTP, as in `1.1`; the names of the headers are in small letters.
    """
    hosts = sum(name == b"host" for name, _ in headers)
    if hosts > 1 or (hosts == 0 and version == "1.1"):
        return f"the request has {hosts or 'no'} Host headers: HTTP/1.1 asks for one"
    codings = [value.strip().lower() for name, value in headers if name == b"transfer-encoding"]
    if codings not in ([], [b"chunked"]):
        return "of transfer codings, only chunked is taken; compress a body with Content-Encoding"
    if codings and version != "1.1":
        return f"HTTP/{version} has no Transfer-Encoding: send a Content-Length, or ask with HTTP/1.1"
    return None
