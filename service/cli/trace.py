"""`tracehouse trace`: submit a model from the shell, watch it, print what came out."""

from typing import Annotated, Any, NoReturn

import httpx
import typer

from service.cli import trace_report
from service.cli.connection import Client, ServiceOptions, connect
from service.cli.example_inputs import Uploads
from service.cli.exit_codes import CANCELLED, FAILED, REJECTED, RESTRICTED
from service.cli.json_output import Json
from service.cli.option_groups import with_option_groups
from service.cli.progress_bar import ProgressBar
from service.cli.sources import SourceArguments, name_source
from service.cli.trace_options import (
    CallOptions,
    ImageOptions,
    ModelOptions,
    RequestOptions,
    SizeOptions,
    TorchOptions,
    TraceCheckOptions,
    spec_of,
)
from service.cli.trace_requests import is_unfinished, require_success
from tracehouse.client.forms import TraceRequestForm
from tracehouse.client.progress import explain_waiting
from tracehouse.findings.verdict import Verdict

Document = dict[str, Any]


@with_option_groups
def trace(
    source: SourceArguments,
    call: CallOptions,
    model: ModelOptions,
    sizes: SizeOptions,
    check: TraceCheckOptions,
    images: ImageOptions,
    options: TorchOptions,
    request: RequestOptions,
    printouts: Annotated[bool, typer.Option(help="Print the graph and the code.")] = True,
    as_json: Json = False,
    *,
    service: ServiceOptions,
) -> None:
    """Trace a model and print its verdict, contract and graph.

    Exits with 0 if the verdict is verified or self-consistent, or if a rejected model is registered because of
    --accept-unsound; with 3 if it is rejected; with 4 if it is restricted, which means that it is registered, and is
    not right for all that was asked for; and with 1 if the model could not be traced, or if no
    service answers.
    """
    uploads = Uploads()
    named = name_source(source.text, uploads)
    for line in named.left_out:
        typer.echo(line, err=True)
    spec = spec_of(named, call, model, sizes, check, images, options, request, uploads)
    with connect(service) as client:
        submitted = client.submit(spec, uploads.files)
        ended = _watch(client, submitted)
        if as_json:
            trace_report.print_document(client, ended)
            require_success(ended)
        else:
            trace_report.print_report(client, ended, printouts=printouts)
    code = exit_code_of(ended)
    if code == REJECTED:
        typer.echo(
            "Not registered: change what the findings name, or accept it as it is with --accept-unsound.", err=True
        )
    if code:
        raise typer.Exit(code)


def exit_code_of(ended: Document) -> int:
    """Return the exit code for a trace request that succeeded."""
    if ended["model"] is None and ended["links"]["outputs"] is None:
        return REJECTED
    return RESTRICTED if ended["verdict"] == Verdict.RESTRICTED else 0


def _watch(client: Client, request: Document) -> Document:
    """Show the progress until the request ends, and return it; what the source prints goes above the bar."""
    try:
        with ProgressBar() as bar:
            if (why := explain_waiting(request)) is not None:
                typer.echo(f"Waiting: {why}; Ctrl-C cancels the request.", err=True)
            for kind, data in client.events(request["id"]):
                if kind == "log":
                    bar.print(data["text"])
                else:
                    bar.take(kind, data)
        ended = client.get(f"/trace/{request['id']}", TraceRequestForm)
    except KeyboardInterrupt:
        client.cancel(request["id"])
        typer.echo(f"Cancelled trace request {request['id']}.", err=True)
        raise typer.Exit(CANCELLED) from None
    except httpx.HTTPError:
        _say_that_it_goes_on(request)
    if is_unfinished(ended):  # a service that stops ends the stream of events before the request has ended
        _say_that_it_goes_on(request)
    return ended


def _say_that_it_goes_on(request: Document) -> NoReturn:
    typer.echo(
        f"The service went away; it keeps trace request {request['id']}, and goes on with it when it is back.", err=True
    )
    raise typer.Exit(FAILED)
