"""Documents: the JSON objects that a service answers. What answers at its address may be no service, or another one."""

from typing import Any

import orjson

from tracehouse.client.errors import UnexpectedReply


class Document(dict[str, Any]):
    """A JSON object; for a member that it lacks, it raises UnexpectedReply."""

    def __missing__(self, name: str) -> Any:
        raise UnexpectedReply(
            f"the answer has no {name!r}: is the address that of a Tracehouse service, and of this release?"
        )


def read_document(content: bytes | str) -> Document:
    """Return the object in the text of a document. Raises UnexpectedReply."""
    try:
        read = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise UnexpectedReply("the answer is no JSON: is the address that of a Tracehouse service?") from error
    if not isinstance(read, dict):
        raise UnexpectedReply("the answer is no JSON object: is the address that of a Tracehouse service?")
    return Document(read)


def read_problem(content: bytes) -> dict[str, Any] | None:
    """Return the problem document that a refusal has; None if it has none."""
    try:
        read = orjson.loads(content)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(read, dict) or not isinstance(read.get("title"), str):
        return None
    errors = read.get("errors")
    return read | {"errors": [one for one in errors if isinstance(one, dict)] if isinstance(errors, list) else []}
