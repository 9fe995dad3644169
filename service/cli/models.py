"""`tracehouse models`: what is registered, which version of it answers, and how it is served."""

from functools import partial
from typing import Annotated, Any

import typer

from service.cli.connection import Client, ServiceOptions, connect
from service.cli.json_output import Json, print_json
from service.cli.option_groups import with_option_groups
from service.cli.versions import parse_name
from tracehouse.client.forms import ModelForm, ModelPage
from tracehouse.printable_text import printable_line

Document = dict[str, Any]

# The word for "as the service's setting says", which is null over HTTP.
_SERVICE = "service"
_NUMBER_MAX = 1024  # of threads, or of processes
_OPTIONS = {
    "bitwise": "--bitwise",
    "idle_s": "--idle-s",
    "pinned": "--pin",
    "threads": "--threads",
    "replicas": "--replicas",
}


def _parse_seconds(text: str) -> float | str:
    if text == _SERVICE:
        return text
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise typer.BadParameter(f"write a number of seconds, 0 for never, or {_SERVICE!r}")
    return seconds


def _parse_number(what: str, text: str) -> int | str:
    """Return how many there are to be of `what`, or the word that leaves it to the service."""
    if text == _SERVICE:
        return text
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= _NUMBER_MAX):
        raise typer.BadParameter(f"write a number of {what}, from 1 to {_NUMBER_MAX}, or {_SERVICE!r}")
    return int(text)


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
    idle_s: Annotated[
        Any,
        typer.Option(
            "--idle-s",
            metavar="SECONDS",
            parser=_parse_seconds,
            help="End a process of MODEL that nobody has asked for so long; 0: never. `service`: as the service's "
            "RUNNER_IDLE_S says.",
        ),
    ] = None,
    pinned: Annotated[
        bool | None,
        typer.Option(
            "--pin/--no-pin",
            help="Keep the processes of MODEL's default version ready, or no longer so: from the start of the service "
            "on, and as far as your share of its memory goes.",
        ),
    ] = None,
    threads: Annotated[
        Any,
        typer.Option(
            "--threads",
            metavar="NUMBER",
            parser=partial(_parse_number, "threads"),
            help="Have a process of MODEL compute with so many threads, at most one for each core. `service`: as the "
            "service's RUNNER_THREADS says.",
        ),
    ] = None,
    replicas: Annotated[
        Any,
        typer.Option(
            "--replicas",
            metavar="NUMBER",
            parser=partial(_parse_number, "processes"),
            help="Have so many processes of MODEL answer, at most one for each core, as long as there is memory. "
            "`service`: as the service's RUNNER_REPLICAS says.",
        ),
    ] = None,
    as_json: Json = False,
    *,
    service: ServiceOptions,
) -> None:
    """List the models, their versions, aliases and default versions, or change how one is served."""
    given = {"bitwise": bitwise, "idle_s": idle_s, "pinned": pinned, "threads": threads, "replicas": replicas}
    changes = {option: None if value == _SERVICE else value for option, value in given.items() if value is not None}
    if changes and name is None:
        raise typer.BadParameter(f"name the model: tracehouse models MODEL {_OPTIONS[next(iter(changes))]}")
    with connect(service) as client:
        listed = client.entries("/models", "models", ModelPage) if name is None else [_find(client, name, changes)]
        if as_json:
            print_json({"models": listed})
            return
        if not listed:
            typer.echo("There is no model yet: `tracehouse trace` makes one.", err=True)
        for model in listed:
            typer.echo(printable_line(_line_of(model)))


def _find(client: Client, name: str, changes: Document) -> Document:
    return client.set_serving(name, changes) if changes else client.get(f"/models/{name}", ModelForm)


def _line_of(model: Document) -> str:
    versions = ", ".join(f"{each['version']} {each['verdict']}" for each in model["versions"])
    aliases = "".join(f"  @{alias['alias']} → {alias['version']}" for alias in model["aliases"])
    serving = "".join(f"  {how}" for how in _serving_of(model))
    return f"{model['name']}: {versions}  default → {model['default_version'] or 'none'}{aliases}{serving}"


def _serving_of(model: Document) -> list[str]:
    """Say how the model is served, where that is not as usual."""
    serving = []
    if model["bitwise"]:
        serving.append("served bitwise")
    if (idle_s := model.get("idle_s")) is not None:
        serving.append(f"ends after {idle_s:g} s without a request" if idle_s else "never ends for idleness")
    if model.get("pinned"):
        serving.append("pinned")
    if (threads := model.get("threads")) is not None:
        serving.append(f"computes with {threads} thread{'s' if threads != 1 else ''}")
    if (replicas := model.get("replicas")) is not None:
        serving.append(f"answered by {'1 process' if replicas == 1 else f'up to {replicas} processes'}")
    return serving
