"""The paths of what a service has, from the names that a program gives.

A name with a slash, a `..` or a question mark would make another path of it, which the client's key may change or
delete: nothing on a service is called so.
"""

from tracehouse.client.errors import NotSendable
from tracehouse.spec.model_name import NAME_RULE, is_name


def model_path(name: str) -> str:
    """Return the path of a model. Raises NotSendable."""
    return f"/models/{_named('a model', name)}"


def alias_path(name: str, alias: str) -> str:
    """Return the path of an alias of a model. Raises NotSendable."""
    return f"{model_path(name)}/aliases/{_named('an alias', alias)}"


def version_path(name: str, version: int) -> str:
    """Return the path of a version of a model. Raises NotSendable."""
    return f"{model_path(name)}/versions/{_numbered(version)}"


def inference_path(reference: str) -> str:
    """Return where a model answers, which is given as its name, `name@alias` or `name:version`. Raises NotSendable."""
    named, colon, version = reference.partition(":")
    name, at, alias = named.partition("@")
    path = f"/v2/models/{_named('a model', name)}"
    path += f"@{_named('an alias', alias)}" if at else ""
    path += f"/versions/{_numbered(version)}" if colon else ""
    return f"{path}/infer"


def trace_path(request_id: str) -> str:
    """Return the path of a trace request. Raises NotSendable."""
    if not is_name(request_id):
        raise NotSendable(f"{request_id!r} is not the id of a trace request: give that of one, as trace.id has it")
    return f"/trace/{request_id}"


def _named(what: str, name: str) -> str:
    if not is_name(name):
        raise NotSendable(f"{name!r} is not the name of {what}: {NAME_RULE}")
    return name


def _numbered(version: int | str) -> str:
    text = str(version)
    if not (text.isascii() and text.isdecimal()):
        raise NotSendable(f"{version!r} is not the number of a version, such as 3")
    return text
