"""A trace request as it is named in a shell: by its id, or by the version of a model that came from it."""

import re
from typing import Any

import typer

from service.cli.connection import Client, ServiceRefused
from service.cli.versions import NAMED, find_version
from tracehouse.client.forms import TraceRequestForm

Document = dict[str, Any]

NAMED_TRACE = f"The id of a trace request, or {NAMED}."
_ID = re.compile("[0-9a-f]{32}")
_UNFINISHED = ("queued", "running")


def is_id(text: str) -> bool:
    """Whether this is the id of a trace request."""
    return _ID.fullmatch(text) is not None


def find_request(client: Client, text: str) -> Document:
    """Return what the service says of the trace request. Raises typer.BadParameter if a model lacks the version."""
    if is_id(text):
        return client.get(f"/trace/{text}", TraceRequestForm)
    _, version = find_version(client, text)
    return client.get(version["links"]["trace_request"], TraceRequestForm)


def find_success(client: Client, text: str) -> Document:
    """Return what the service says of a trace request that succeeded.

    Raises typer.BadParameter before its end, and ServiceRefused if it ended in another way.
    """
    request = find_request(client, text)
    if is_unfinished(request):
        raise typer.BadParameter(
            f"trace request {request['id']} is {request['state']}: `tracehouse logs --follow {request['id']}` ends "
            "when it does"
        )
    require_success(request)
    return request


def is_unfinished(request: Document) -> bool:
    """Whether the request has not ended: it is queued or runs."""
    return request["state"] in _UNFINISHED


def require_success(request: Document) -> None:
    """Raise ServiceRefused, with the problem, for a request that ended without success."""
    if request["state"] != "succeeded":
        raise ServiceRefused(request["problem"] or {"title": "The trace request was cancelled", "code": "cancelled"})
