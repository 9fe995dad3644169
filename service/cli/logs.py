"""`tracehouse logs`: what the model's code printed while it was traced."""

from typing import Annotated

import orjson
import typer

from service.cli.connection import Client, ServiceOptions, connect
from service.cli.exit_codes import FAILED
from service.cli.json_output import Json, print_json
from service.cli.option_groups import with_option_groups
from service.cli.trace_requests import NAMED_TRACE, find_request
from tracehouse.printable_text import printable


@with_option_groups
def logs(
    trace: Annotated[str, typer.Argument(metavar="ID|MODEL", help=NAMED_TRACE)],
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Print what comes until the request ends. With --json, every event.")
    ] = False,
    as_json: Json = False,
    *,
    service: ServiceOptions,
) -> None:
    """Print what the model's code printed while it was traced."""
    with connect(service) as client:
        request = find_request(client, trace)
        if follow:
            _follow(client, request["id"], as_json=as_json)
            return
        log = client.text(request["links"]["log"])
    if as_json:
        print_json({"id": request["id"], "state": request["state"], "log": log})
    else:
        typer.echo(printable(log), nl=False)


def _follow(client: Client, request_id: str, *, as_json: bool) -> None:
    """Print the request's events: those that came before, and others as they come."""
    kind = ""
    for kind, data in client.events(request_id):
        if as_json:
            typer.echo(orjson.dumps({"event": kind, **data}))
        elif kind == "log":
            typer.echo(printable(data["text"]), nl=False)
    if kind != "end":
        typer.echo(f"The service stopped; it goes on with trace request {request_id} when it is back.", err=True)
        raise typer.Exit(FAILED)
