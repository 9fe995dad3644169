"""Documents: the JSON objects that a service takes and answers. What answers may be no service, or another one."""

from collections.abc import Mapping
from typing import Any

import orjson
from pydantic import ValidationError

from tracehouse.client.errors import NotSendable, UnexpectedReply
from tracehouse.client.forms import Form, ProblemForm


class Document(dict[str, Any]):
    """A JSON object; for a member that it lacks, it raises UnexpectedReply."""

    def __missing__(self, name: str) -> Any:
        raise UnexpectedReply(
            f"the answer has no {name!r}: is the address that of a Tracehouse service, and of this release?"
        )


def write_document(document: Mapping[str, Any]) -> bytes:
    """Return an object as JSON. Raises NotSendable, with the member that is no JSON."""
    try:
        return orjson.dumps(document)
    except TypeError:
        for name, member in document.items():
            try:
                orjson.dumps(member)
            except TypeError as error:
                raise NotSendable(f"{name} cannot be sent ({error}): give texts, numbers, lists and dicts") from error
        raise


def read_document(content: bytes | str, form: type[Form] | None = None) -> Document:
    """Return the object in the text of a document. Raises UnexpectedReply, also if it does not have this form."""
    try:
        read = _with_documents(orjson.loads(content))
        if form is not None:  # or a long document would be parsed twice for nothing
            form.model_validate_json(content)
    except (orjson.JSONDecodeError, RecursionError) as error:
        raise UnexpectedReply("the answer is no JSON: is the address that of a Tracehouse service?") from error
    except ValidationError as error:
        raise UnexpectedReply(_describe(error)) from error
    if not isinstance(read, Document):
        raise UnexpectedReply("the answer is no JSON object: is the address that of a Tracehouse service?")
    return read


def _describe(error: ValidationError) -> str:
    """Return what the first member is that is not as it has to be."""
    first = error.errors(include_url=False, include_input=False)[0]
    place = "".join(f"[{one!r}]" for one in first["loc"])
    return (
        f"the answer is not one of a Tracehouse service of this release{f', at {place}' if place else ''} "
        f"({first['msg']}): is the address that of one?"
    )


def _with_documents(value: Any) -> Any:
    """Return the value with a Document in place of each object. Lists that begin with no such thing stay as they are:
    these may have millions of numbers."""
    match value:
        case dict():
            return Document({name: _with_documents(member) for name, member in value.items()})
        case [dict() | list(), *_]:
            return [_with_documents(member) for member in value]
    return value


def read_problem(content: bytes) -> dict[str, Any] | None:
    """Return the problem document that a refusal has; None if it has none."""
    try:
        read = orjson.loads(content)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(read, dict) or not isinstance(read.get("title"), str):
        return None
    errors = read.get("errors")
    listed = errors if isinstance(errors, list) else []
    known = [one for one in listed if isinstance(one, dict) and isinstance(one.get("detail"), str)]
    try:
        ProblemForm.model_validate(read | {"errors": known})
    except ValidationError:
        return None
    return read | {"errors": known}
