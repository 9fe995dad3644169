"""`tracehouse models`: what is registered, which version of it answers, and whether it is served bitwise."""

from typing import Annotated, Any

import typer

from service.cli.connection import Client, ServiceOptions, connect
from service.cli.json_output import Json, print_json
from service.cli.option_groups import with_option_groups
from service.cli.versions import parse_name
from tracehouse.client.forms import ModelForm, ModelPage
from tracehouse.printable_text import printable_line

Document = dict[str, Any]


@with_option_groups
def models(
    name: Annotated[
        str | None, typer.Argument(metavar="MODEL", help="One model; all of them without it.", callback=parse_name)
    ] = None,
    bitwise: Annotated[
        bool | None,
        typer.Option(
            "--bitwise/--no-bitwise",
            help="Have MODEL served bitwise, or no longer so: the bytes of its answers then depend on nobody who asks "
            "at the same time.",
        ),
    ] = None,
    as_json: Json = False,
    *,
    service: ServiceOptions,
) -> None:
    """List the models, their versions, aliases and default versions, or change how one is served."""
    if bitwise is not None and name is None:
        raise typer.BadParameter("name the model: tracehouse models MODEL --bitwise")
    with connect(service) as client:
        listed = client.entries("/models", "models", ModelPage) if name is None else [_find(client, name, bitwise)]
        if as_json:
            print_json({"models": listed})
            return
        if not listed:
            typer.echo("There is no model yet: `tracehouse trace` makes one.", err=True)
        for model in listed:
            typer.echo(printable_line(_line_of(model)))


def _find(client: Client, name: str, bitwise: bool | None) -> Document:
    return client.get(f"/models/{name}", ModelForm) if bitwise is None else client.set_bitwise(name, bitwise)


def _line_of(model: Document) -> str:
    versions = ", ".join(f"{each['version']} {each['verdict']}" for each in model["versions"])
    aliases = "".join(f"  @{alias['alias']} → {alias['version']}" for alias in model["aliases"])
    bitwise = "  served bitwise" if model["bitwise"] else ""
    return f"{model['name']}: {versions}  default → {model['default_version'] or 'none'}{aliases}{bitwise}"
