"""Flows: what a client asks of a service and does with the replies, without saying how the asking is done.

A flow is a generator: it yields what it asks, gets the reply, and returns its result. So each operation is written
once, and `connection` runs it, waiting for each reply or in an event loop.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import orjson

from tracehouse.client.documents import Document, read_document
from tracehouse.client.errors import UnexpectedReply
from tracehouse.client.forms import Form, Page

# The header with which a service takes a request once, however often it comes.
IDEMPOTENCY_KEY = "idempotency-key"
# The most entries that a service gives at once.
PAGE_MAX = 100
# Chosen: five times the models that docs/capacity.md reckons with. What gives more is no service.
PAGES_MAX = 10_000


@dataclass(frozen=True)
class Ask:
    """One HTTP request. `files` are the parts of a multipart body, each with a name, its content and its type.

    With `on_line`, the reply is handed over line by line while it comes, and with `on_bytes` piece by piece.
    """

    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    json: Any = None
    content: bytes | None = None
    files: Sequence[tuple[str, tuple[str, Any, str]]] = ()
    on_line: Callable[[str], object] | None = None
    on_bytes: Callable[[bytes], object] | None = None


@dataclass(frozen=True)
class Reply:
    """A reply that says that it went well."""

    headers: Mapping[str, str]
    content: bytes

    def json(self, form: type[Form]) -> Document:
        """Return the document. Raises UnexpectedReply."""
        return read_document(self.content, form)

    def text(self) -> str:
        return self.content.decode(errors="replace")


_T = TypeVar("_T")
Flow = Generator[Ask, Reply, _T]


def get_json(path: str, form: type[Form], params: Mapping[str, str] | None = None) -> Flow[Document]:
    """Return the JSON document at a path."""
    reply = yield Ask("GET", path, params=params or {})
    return reply.json(form)


def get_list(
    path: str,
    member: str,
    form: type[Page] = Page,
    params: Mapping[str, str] | None = None,
    *,
    most: int | None = None,
) -> Flow[list[Any]]:
    """Return the entries of a list that a service gives a page at a time: all of them, or at most so many."""
    entries: list[Any] = []
    asked = dict(params or {})
    seen: set[int] = set()
    for _ in range(PAGES_MAX):
        if most is not None and len(entries) >= most:
            return entries[:most]
        wanted = PAGE_MAX if most is None else min(PAGE_MAX, most - len(entries))
        page = yield from get_json(path, form, {"limit": str(wanted), **asked})
        listed = page[member]
        if not isinstance(listed, list) or not all(isinstance(entry, Document) for entry in listed):
            raise UnexpectedReply(f"{member!r} of the answer is no list of JSON objects: is it a Tracehouse service's?")
        entries += listed
        cursor = page["next_cursor"]
        if cursor is None:
            return entries[:most]
        new = {hash(orjson.dumps(entry)) for entry in listed} - seen
        if not new:
            break
        seen |= new
        asked["cursor"] = cursor
    raise UnexpectedReply(f"the list at {path} would never end: is the address that of a Tracehouse service?")


def get_text(path: str, **params: str) -> Flow[str]:
    """Return the text at a path."""
    reply = yield Ask("GET", path, params=params, headers={"accept": "text/plain"})
    return reply.text()
