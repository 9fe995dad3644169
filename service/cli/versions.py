"""A version of a model as it is named in a shell: `net`, `net:3` or `net@prod`."""

import re
from typing import Any

import typer

from service.cli.connection import Client
from tracehouse.contract.dims import format_sizes

Document = dict[str, Any]

NAMED = "model, model@alias or model:version"
# As the service has it; what else is written here would be another path.
_NAME = "[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?"
_VERSION = re.compile(rf"({_NAME})(?::([1-9][0-9]{{0,8}})|@({_NAME}))?")
_MODEL = re.compile(_NAME)


def parse_name(text: str) -> str:
    """Return the name of a model or an alias. Raises typer.BadParameter if none can have it."""
    if _MODEL.fullmatch(text) is None:
        raise typer.BadParameter(f"{text!r} is not a name: letters, digits, '.', '_' and '-', up to 64")
    return text


def parse_version(text: str) -> tuple[str, int | None, str | None]:
    """Return the model's name, and the version or the alias. Raises typer.BadParameter."""
    found = _VERSION.fullmatch(text)
    if found is None:
        raise typer.BadParameter(f"{text!r} names no version: write {NAMED}")
    name, version, alias = found.groups()
    return name, None if version is None else int(version), alias


def find_version(client: Client, text: str) -> tuple[str, Document]:
    """Return the model's name, and what the service says of the version. Raises typer.BadParameter if it has none."""
    name, number, alias = parse_version(text)
    model = client.get(f"/models/{name}")
    if alias is not None:
        number = next((one["version"] for one in model["aliases"] if one["alias"] == alias), None)
        if number is None:
            raise typer.BadParameter(f"model {name} has no alias {alias}")
    elif number is None:
        number = model["default_version"]
        if number is None:
            raise typer.BadParameter(f"model {name} has no default version: name one, such as {_first(name, model)}")
    for version in model["versions"]:
        if version["version"] == number:
            return name, version
    raise typer.BadParameter(f"model {name} has no version {number}")


def _first(name: str, model: Document) -> str:
    return f"{name}:{model['versions'][0]['version']}" if model["versions"] else f"{name}:1"


def artifacts_of(client: Client, version: Document) -> list[Document]:
    """Return the artifacts of a version: one for each device or for each bucket."""
    digests = [one["digest"] for one in version["buckets"]] or [*version["artifacts"].values()]
    return [client.get(f"/artifacts/{digest}") for digest in dict.fromkeys(digests)]


def describe_part(artifact: Document) -> str:
    """Return what the artifact is for: a device, and with buckets a size."""
    return ", ".join(filter(None, [artifact["device"], format_sizes(artifact["bucket"])]))
