"""`tracehouse graph`: the printouts of a trace, as torch prints them."""

from typing import Annotated

import typer

from service.cli.artifacts import Part, choose_part, read_artifacts
from service.cli.connection import ServiceOptions, connect
from service.cli.json_output import Json, print_json
from service.cli.option_groups import with_option_groups
from service.cli.trace_requests import NAMED_TRACE, find_success
from tracehouse.artifact.manifest import PrintoutKind
from tracehouse.client.results import first_method
from tracehouse.printable_text import printable


@with_option_groups
def graph(
    trace: Annotated[str, typer.Argument(metavar="ID|MODEL", help=NAMED_TRACE)],
    kind: Annotated[
        PrintoutKind,
        typer.Option(help="graph; inlined_graph, with the graphs of the submodules; code; or another printout."),
    ] = "graph",
    method: Annotated[str | None, typer.Option(help="A traced method. Default: the first.")] = None,
    submodule: Annotated[str, typer.Option(help="A submodule's dotted name. Default: the model itself.")] = "",
    part: Part = None,
    as_json: Json = False,
    *,
    service: ServiceOptions,
) -> None:
    """Print the graph of a trace, or its code, as torch prints it. With --json, the nodes with their lines."""
    with connect(service) as client:
        request = find_success(client, trace)
        artifact = choose_part(read_artifacts(client, [one["digest"] for one in request["artifacts"]]), part)
        path = f"{artifact['links']['printouts']}/{kind}"
        which = {"method": method or first_method(artifact["contract"]["methods"]), "submodule": submodule}
        if as_json:
            print_json(client.get(path, format="json", **which))
        else:
            typer.echo(printable(client.text(path, **which)))
