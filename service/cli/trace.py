"""`tracehouse trace`: submit a model from the shell, watch it, print what came out."""

from pathlib import Path
from typing import Annotated, Any

import httpx
import orjson
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from service.cli.client import DEFAULT_URL, Client, Key, ServiceRefused, Url, explained
from service.cli.inputs import ShellInputs, Uploads
from service.sandbox.log_tail import printable

# Success for a shell is a model that can be served.
REJECTED = 3

out, progress_out = Console(), Console(stderr=True)


def trace(
    entrypoint: Annotated[str, typer.Argument(help="Source and entrypoint: net.py:Net, or package.zip:pkg.net:Net.")],
    input: Annotated[  # noqa: A002 - the option is --input
        list[str],
        typer.Option(
            metavar="INPUT",
            help="An example input, once for each: 1x3x224x224, ids=2x8:INT64@0..1000 (a keyword argument), "
            "x=inputs.npz#x (a tensor in a file).",
        ),
    ],
    name: Annotated[str | None, typer.Option(help="The model's name; the source's stem if not given.")] = None,
    weights: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="State dict: .safetensors, .pt or .pth.")
    ] = None,
    init: Annotated[str, typer.Option(help="JSON: the keyword arguments that the entrypoint is called with.")] = "{}",
    seed: Annotated[int, typer.Option(help="For random inputs and random weights.")] = 0,
    strict: Annotated[
        bool, typer.Option(help="As torch.jit.trace takes it; --no-strict lets dicts be returned.")
    ] = True,
    accept_unsound: Annotated[bool, typer.Option(help="Register the model even if its trace is rejected.")] = False,
    force: Annotated[bool, typer.Option(help="Trace again, although the same was traced before.")] = False,
    printouts: Annotated[bool, typer.Option(help="Print the graph and the code.")] = True,
    url: Url = DEFAULT_URL,
    key: Key = None,
) -> None:
    """Trace a model and print its verdict, contract and graph. Exits with 1 if it failed, with 3 if it is rejected."""
    uploads = Uploads()
    source = _source(entrypoint, uploads)
    inputs = ShellInputs.parse(input, seed, uploads)
    spec: dict[str, Any] = {
        "model": name or Path(entrypoint.split(":")[0]).stem,
        "source": {**source, "init": {"kwargs": _object(init)}},
        "example_inputs": inputs.args,
        "example_kwarg_inputs": inputs.kwargs,
        "options": {"seed": seed, "strict": strict},
        "accept_unsound": accept_unsound,
        "force": force,
    }
    if weights:
        spec["weights"] = {"file": uploads.add(weights)}
    client = Client(url, key)
    with explained(url):
        request = client.submit(spec, uploads.files)
        _watch(client, request["id"])
        ended = client.get(f"/trace/{request['id']}")
        _report(client, ended, printouts=printouts)
    if ended["model"] is None:
        typer.echo(
            "Not registered: change what the findings name, or accept it as it is with --accept-unsound.", err=True
        )
        raise typer.Exit(REJECTED)


def _source(entrypoint: str, uploads: Uploads) -> dict[str, Any]:
    """The request's `source`."""
    path_text, _, rest = entrypoint.partition(":")
    path = Path(path_text)
    if path.suffix not in (".py", ".zip"):
        raise typer.BadParameter(f"{path_text!r} is neither a .py nor a .zip file; write net.py:Net")
    if not path.is_file():
        raise typer.BadParameter(f"there is no file {path}")
    if not rest:
        raise typer.BadParameter(f"say what in {path} is to be traced: {entrypoint}:NAME")
    if path.suffix == ".zip":
        return {"file": uploads.add(path), "entrypoint": rest}
    if not path.stem.isidentifier():
        raise typer.BadParameter(f"{path.name} cannot be imported: rename it to a Python name")
    try:
        return {"files": {path.name: path.read_text("utf-8")}, "entrypoint": f"{path.stem}:{rest}"}
    except UnicodeDecodeError:  # Python knows other encodings; JSON does not
        return {"file": uploads.add(path), "entrypoint": f"{path.stem}:{rest}"}


def _object(text: str) -> dict[str, Any]:
    try:
        value = orjson.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"--init is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise typer.BadParameter("--init is a JSON object of keyword arguments")
    return value


def _watch(client: Client, request_id: str) -> None:
    """Show the progress until the request ends; what the source prints goes above the bar."""
    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn()
    bar = Progress(*columns, console=progress_out, transient=True, disable=not progress_out.is_terminal)
    try:
        with bar:
            task = bar.add_task("queued", total=1.0)
            for kind, data in client.events(request_id):
                if kind == "stage":
                    bar.update(task, description=data["stage"], completed=data["progress"])
                elif kind == "log":
                    bar.console.print(data["text"], end="", markup=False, highlight=False)
    except KeyboardInterrupt:
        client.cancel(request_id)
        typer.echo(f"Cancelled trace request {request_id}.", err=True)
        raise typer.Exit(130) from None
    except httpx.HTTPError:
        typer.echo(
            f"The service went away; it keeps trace request {request_id}, and goes on with it when it is back.",
            err=True,
        )
        raise typer.Exit(1) from None


def _report(client: Client, request: dict[str, Any], *, printouts: bool) -> None:
    if request["state"] != "succeeded":
        raise ServiceRefused(request["problem"] or {"title": "The trace request was cancelled", "code": "cancelled"})
    [artifact_ref] = request["artifacts"]
    artifact = client.get(f"/artifacts/{artifact_ref['digest']}")
    out.print(_contract(artifact["contract"]))
    if printouts:
        for kind in ("graph", "code"):
            for method in artifact["contract"]["methods"]:
                out.rule(f"{kind} of {method}", align="left")
                # As torch prints it: never wrapped, cropped or taken for markup.
                text = client.text(f"/artifacts/{artifact_ref['digest']}/printouts/{kind}", method=method)
                typer.echo(printable(text))
    for finding in request["findings"]:
        where = f"{finding['file']}:{finding['line']}: " if finding["file"] else ""
        typer.echo(printable(f"{where}{finding['kind']}: {finding['detail']}"))
        if finding["remedy"]:
            typer.echo(printable(f"  remedy: {finding['remedy']}"))
    model = request["model"]
    served = f"{model['name']}:{model['version']}" if model else "not registered"
    typer.echo(f"verdict: {request['verdict']}   model: {served}   artifact: {artifact_ref['digest']}")


def _contract(contract: dict[str, Any]) -> Table:
    table = Table(title="Contract", title_justify="left")
    for heading in ("method", "", "name", "datatype", "shape"):
        table.add_column(heading, overflow="fold")
    for name, method in contract["methods"].items():
        for way in ("inputs", "outputs"):
            for spec in method[way]:
                shape = "x".join(map(str, spec["shape"])) or "scalar"
                table.add_row(name, way[:-1], printable(spec["name"]), spec["datatype"], shape)
    return table
