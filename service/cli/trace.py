"""`tracehouse trace`: submit a model from the shell, watch it, print what came out."""

from typing import Annotated, Any

import httpx
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from service.cli import trace_report
from service.cli.connection import DEFAULT_URL, Client, Key, Url, explain_errors
from service.cli.example_inputs import Uploads
from service.cli.option_groups import with_option_groups
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
from tracehouse.findings.verdict import Verdict

# A shell takes 0 for success: a model that can be served for all that was asked for.
REJECTED = 3
RESTRICTED = 4
SLOTS = {"cpu": "TRACE_SLOTS", "gpu": "GPU_SLOTS"}

progress_out = Console(stderr=True)


@with_option_groups
def trace(
    entrypoint: Annotated[
        str,
        typer.Argument(
            help="Source and entrypoint: net.py:Net, or package.zip:pkg.net:Net. Or an archive of TorchScript: net.pt."
        ),
    ],
    call: CallOptions,
    model: ModelOptions,
    sizes: SizeOptions,
    check: TraceCheckOptions,
    images: ImageOptions,
    options: TorchOptions,
    request: RequestOptions,
    printouts: Annotated[bool, typer.Option(help="Print the graph and the code.")] = True,
    url: Url = DEFAULT_URL,
    key: Key = None,
) -> None:
    """Trace a model and print its verdict, contract and graph. Exits with 1 if it failed, with 3 if it is rejected.

    Exits with 4 if it is restricted: it is registered, and is not right for all that was asked for.
    """
    uploads = Uploads()
    spec = spec_of(entrypoint, call, model, sizes, check, images, options, request, uploads)
    client = Client(url, key)
    with explain_errors(url):
        submitted = client.submit(spec, uploads.files)
        _watch(client, submitted)
        ended = client.get(f"/trace/{submitted['id']}")
        trace_report.print_report(client, ended, printouts=printouts)
    code = exit_code_of(ended)
    if code == REJECTED:
        typer.echo(
            "Not registered: change what the findings name, or accept it as it is with --accept-unsound.", err=True
        )
    if code:
        raise typer.Exit(code)


def exit_code_of(ended: dict[str, Any]) -> int:
    """Return the exit code for a trace request that succeeded."""
    if ended["model"] is None and ended["links"]["outputs"] is None:
        return REJECTED
    return RESTRICTED if ended["verdict"] == Verdict.RESTRICTED else 0


def _watch(client: Client, request: dict[str, Any]) -> None:
    """Show the progress until the request ends; what the source prints goes above the bar."""
    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn()
    bar = Progress(*columns, console=progress_out, transient=True, disable=not progress_out.is_terminal)
    try:
        with bar:
            task = bar.add_task("queued", total=1.0)
            if request["waiting"]:
                typer.echo(_why_it_waits(request), err=True)
            for kind, data in client.events(request["id"]):
                if kind == "stage":
                    bar.update(task, description=data["stage"], completed=data["progress"])
                elif kind == "position":
                    bar.update(task, description=f"queued, place {data['position']}")
                elif kind == "log":
                    bar.console.print(data["text"], end="", markup=False, highlight=False)
    except KeyboardInterrupt:
        client.cancel(request["id"])
        typer.echo(f"Cancelled trace request {request['id']}.", err=True)
        raise typer.Exit(130) from None
    except httpx.HTTPError:
        typer.echo(
            f"The service went away; it keeps trace request {request['id']}, and goes on with it when it is back.",
            err=True,
        )
        raise typer.Exit(1) from None


def _why_it_waits(request: dict[str, Any]) -> str:
    slots = SLOTS[request["pool"]]
    return (
        f"Waiting: {request['waiting']}. There is one where the service is started with {slots}=1 or more; "
        "Ctrl-C cancels the request."
    )
