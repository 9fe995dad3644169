"""A version of a model as it is named in a shell: `net`, `net:3` or `net@prod`."""

from typing import Annotated, Any

import typer

from service.cli.connection import Client
from service.domain.errors import InvalidName
from service.domain.model import ModelRef
from tracehouse.client.forms import ModelForm
from tracehouse.printable_text import printable_line
from tracehouse.spec.model_name import NAME_RULE, is_name

Document = dict[str, Any]

NAMED = "model, model@alias or model:version"

MoveBackAfter = Annotated[
    int | None,
    typer.Option(
        "--move-back-after",
        metavar="N",
        min=1,
        help="Move back to the version before once the live check found so many answers wrong. Default: never.",
    ),
]


def parse_name(text: str | None) -> str | None:
    """Return the name, or None where none is given. Raises typer.BadParameter if nothing can have it."""
    if text is not None and not is_name(text):
        raise typer.BadParameter(f"{text!r} is not a name: {NAME_RULE}")
    return text


def parse_version(text: str) -> ModelRef:
    """Return the model's name, and the version or the alias. Raises typer.BadParameter."""
    try:
        return ModelRef.parse(text)
    except InvalidName as error:
        raise typer.BadParameter(f"{text!r} names no version: write {NAMED}") from error


def find_version(client: Client, text: str) -> tuple[str, Document]:
    """Return the model's name, and what the service says of the version. Raises typer.BadParameter if it has none."""
    wanted = parse_version(text)
    name, number, alias = wanted.name, wanted.version, wanted.alias
    model = client.get(f"/models/{name}", ModelForm)
    if alias is not None:
        number = next((one["version"] for one in model["aliases"] if one["alias"] == alias), None)
        if number is None:
            aliases = printable_line(", ".join(one["alias"] for one in model["aliases"])) or "none"
            raise typer.BadParameter(f"model {name} has no alias {alias}: it has {aliases}; tracehouse alias sets one")
    elif number is None:
        number = model["default_version"]
        if number is None:
            raise typer.BadParameter(f"model {name} has no default version: name one, such as {_first(name, model)}")
    for version in model["versions"]:
        if version["version"] == number:
            return name, version
    numbers = ", ".join(str(one["version"]) for one in model["versions"]) or "none"
    raise typer.BadParameter(f"model {name} has no version {number}: it has {numbers}")


def print_moving_back(after: int | None) -> None:
    """Print when the version before answers again, if it ever does."""
    if after is not None:
        typer.echo(f"The version before answers again after {after} wrong answers.")


def _first(name: str, model: Document) -> str:
    return f"{name}:{model['versions'][0]['version']}" if model["versions"] else f"{name}:1"
