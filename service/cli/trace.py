"""`tracehouse trace`: submit a model from the shell, watch it, print what came out."""

from pathlib import Path
from typing import Annotated, Any

import httpx
import orjson
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from service.cli.client import DEFAULT_URL, Client, ServiceRefused, Url
from service.cli.inputs import ShellInputs

out, progress_out = Console(), Console(stderr=True)


def trace(
    entrypoint: Annotated[
        str, typer.Argument(help="Source and entrypoint, such as net.py:Net or package.zip:pkg.net:Net.")
    ],
    input: Annotated[  # noqa: A002 - the option is --input
        list[str], typer.Option(help="An example input: 1x3x224x224, ids=2x8:INT64@0..1000 or x=inputs.npz#x.")
    ],
    name: Annotated[str | None, typer.Option(help="The model's name; the source's stem if not given.")] = None,
    weights: Annotated[Path | None, typer.Option(exists=True, dir_okay=False, help=".safetensors or .pt")] = None,
    init: Annotated[str, typer.Option(help="JSON: the keyword arguments that the entrypoint is called with.")] = "{}",
    seed: Annotated[int, typer.Option(help="For random inputs and random weights.")] = 0,
    force: Annotated[bool, typer.Option(help="Trace again, although the same was traced before.")] = False,
    printouts: Annotated[bool, typer.Option(help="Print the graph and the code.")] = True,
    url: Url = DEFAULT_URL,
) -> None:
    """Trace a model and print its verdict, contract and graph."""
    source, files = _source(entrypoint)
    inputs = ShellInputs.parse(input, seed)
    spec: dict[str, Any] = {
        "model": name or Path(entrypoint.split(":")[0]).stem,
        "source": {**source, "init": {"kwargs": _object(init)}},
        "example_inputs": inputs.args,
        "example_kwarg_inputs": inputs.kwargs,
        "options": {"seed": seed},
        "force": force,
    }
    if weights:
        spec["weights"] = {"file": weights.name}
        files.append(weights)
    client = Client(url)
    try:
        ended = _watch(client, client.submit(spec, [*files, *inputs.files]))
        _report(client, ended, printouts=printouts)
    except ServiceRefused as refused:
        progress_out.print(f"[red]{refused}[/red]", *refused.problem.get("errors", []), sep="\n")
        raise typer.Exit(1) from None
    except httpx.HTTPError as error:
        progress_out.print(f"[red]No service answers at {url}[/red] ({error}); start one with: tracehouse serve")
        raise typer.Exit(1) from None
    raise typer.Exit(0 if ended["state"] == "succeeded" else 1)


def _source(entrypoint: str) -> tuple[dict[str, Any], list[Path]]:
    """The request's `source`, and what must be uploaded with it."""
    path_text, _, rest = entrypoint.partition(":")
    path = Path(path_text)
    if not rest or not path.is_file():
        raise typer.BadParameter(f"{entrypoint!r} is not FILE.py:NAME or FILE.zip:MODULE:NAME of a file that is here")
    if path.suffix == ".zip":
        return {"file": path.name, "entrypoint": rest}, [path]
    return {"files": {path.name: path.read_text()}, "entrypoint": f"{path.stem}:{rest}"}, []


def _object(text: str) -> dict[str, Any]:
    try:
        value = orjson.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"--init is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise typer.BadParameter("--init is a JSON object of keyword arguments")
    return value


def _watch(client: Client, request: dict[str, Any]) -> dict[str, Any]:
    """Show the progress until the request ends; what the source prints goes above the bar."""
    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn()
    with Progress(*columns, console=progress_out, transient=True, disable=not progress_out.is_terminal) as bar:
        task = bar.add_task("queued", total=1.0)
        for kind, data in client.events(request["id"]):
            if kind == "stage":
                bar.update(task, description=data["stage"], completed=data["progress"])
            elif kind == "log":
                bar.console.print(data["text"], end="", markup=False, highlight=False)
    return client.get(f"/trace/{request['id']}")


def _report(client: Client, request: dict[str, Any], *, printouts: bool) -> None:
    if request["state"] != "succeeded":
        problem = request["problem"] or {"title": request["state"], "detail": "", "code": request["state"]}
        raise ServiceRefused(problem)
    [artifact_ref] = request["artifacts"]
    artifact = client.get(f"/artifacts/{artifact_ref['digest']}")
    out.print(_contract(artifact["contract"]))
    if printouts:
        for kind in ("graph", "code"):
            for method in artifact["contract"]["methods"]:
                out.rule(f"{kind} of {method}", align="left")
                # As torch prints it: never wrapped, cropped or taken for markup.
                typer.echo(client.text(f"/artifacts/{artifact_ref['digest']}/printouts/{kind}", method=method))
    for finding in request["findings"]:
        where = f"{finding['file']}:{finding['line']}: " if finding["file"] else ""
        typer.echo(f"{where}{finding['kind']}: {finding['detail']}")
    model = request["model"]
    served = f"{model['name']}:{model['version']}" if model else "not registered"
    typer.echo(f"verdict: {request['verdict']}   model: {served}   artifact: {artifact_ref['digest']}")


def _contract(contract: dict[str, Any]) -> Table:
    table = Table("method", "", "name", "datatype", "shape", title="Contract", title_justify="left")
    for name, method in contract["methods"].items():
        for way in ("inputs", "outputs"):
            for spec in method[way]:
                table.add_row(
                    name, way[:-1], spec["name"], spec["datatype"], "x".join(map(str, spec["shape"])) or "scalar"
                )
    return table
