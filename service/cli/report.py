"""`tracehouse report`: what a trace came to, as text or as a page of HTML."""

from pathlib import Path
from typing import Annotated

import typer

from service.cli import trace_report
from service.cli.artifacts import Part, choose_part, read_artifacts
from service.cli.connection import ServiceOptions, connect
from service.cli.json_output import Json, print_json
from service.cli.option_groups import with_option_groups
from service.cli.trace_requests import NAMED_TRACE, find_success
from service.cli.written_file import check_place, file_to_write, write_reply


@with_option_groups
def report(
    trace: Annotated[str, typer.Argument(metavar="ID|MODEL", help=NAMED_TRACE)],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            parser=file_to_write,
            help="Write the page of HTML to this file, or replace it.",
        ),
    ] = None,
    part: Part = None,
    as_json: Json = False,
    *,
    service: ServiceOptions,
) -> None:
    """Print verdict, contract and findings of a trace, or write its report as one page of HTML."""
    if output is not None:
        check_place(output, "report.html")
    elif part is not None:
        raise typer.BadParameter("--part says which artifact's page --output writes: give --output too")
    with connect(service) as client:
        request = find_success(client, trace)
        if output is None:
            if as_json:
                trace_report.print_document(client, request)
            else:
                trace_report.print_report(client, request, printouts=False)
            return
        artifact = choose_part(read_artifacts(client, [one["digest"] for one in request["artifacts"]]), part)
        byte_size = write_reply(client, artifact["links"]["report"], output)
    if as_json:
        print_json({"digest": artifact["digest"], "file": str(output), "byte_size": byte_size})
    else:
        typer.echo(f"{output}: {byte_size:,} bytes")
