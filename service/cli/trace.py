"""`tracehouse trace`: submit a model from the shell, watch it, print what came out."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import httpx
import orjson
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from service.cli import contract_table, size_options
from service.cli.connection import DEFAULT_URL, Client, Key, ServiceRefused, Url, explained
from service.cli.example_inputs import ShellInputs, Uploads
from service.sandbox.log_tail import printable
from tracehouse.findings.kinds import BAKED, Kind

# Success for a shell is a model that can be served.
REJECTED = 3
ARCHIVES = (".pt", ".pth")
SLOTS = {"cpu": "TRACE_SLOTS", "gpu": "GPU_SLOTS"}

out, progress_out = Console(), Console(stderr=True)


def trace(
    entrypoint: Annotated[
        str,
        typer.Argument(
            help="Source and entrypoint: net.py:Net, or package.zip:pkg.net:Net. Or an archive of TorchScript: net.pt."
        ),
    ],
    input: Annotated[  # noqa: A002 - the option is --input
        list[str] | None,
        typer.Option(
            metavar="INPUT",
            help="An example input of forward, once for each: 1x3x224x224, ids=2x8:INT64@0..1000 (a keyword "
            "argument), n=scalar:INT64@1..5 (a tensor of no dimensions), x=inputs.npz#x (a tensor in a file). "
            "What is no tensor: scale=0.25, n=int:3, flag=true, mask=null, 'kind=\"mean\"'.",
        ),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=INPUT,…",
            help="A further method and its inputs, once for each: kernel_sum=1x3,w=4,scale=0.5.",
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="The model's name; the source's stem if not given.")] = None,
    weights: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="State dict: .safetensors, .pt or .pth.")
    ] = None,
    init: Annotated[str, typer.Option(help="JSON: the keyword arguments that the entrypoint is called with.")] = "{}",
    mode: Annotated[
        str,
        typer.Option(
            metavar="trace|script|auto|eager",
            help="auto scripts where a trace is wrong; eager traces nothing, and prints what the model returns.",
        ),
    ] = "trace",
    training: Annotated[
        bool | None, typer.Option("--training/--eval", help="The mode that the model is put into: eval if not given.")
    ] = None,
    as_is: Annotated[bool, typer.Option("--as-is", help="Leave it in the mode in which the source leaves it.")] = False,
    precision: Annotated[
        str | None, typer.Option(metavar="float32|bfloat16|float16|float64", help="Cast the model and its inputs.")
    ] = None,
    device: Annotated[
        list[str] | None, typer.Option(metavar="cpu|cuda", help="Trace on this device, once for each; cpu if none.")
    ] = None,
    dynamic: Annotated[
        list[str] | None,
        typer.Option(metavar="LEAF:DIM=SYMBOL", help="A dim of an input of forward that is to vary: ids:1=seq."),
    ] = None,
    sizes: Annotated[
        list[str] | None, typer.Option(metavar="SYMBOL=LOW..HIGH", help="The sizes that are wanted: seq=1..128.")
    ] = None,
    buckets: Annotated[
        str | None,
        typer.Option(metavar="SYMBOL=SIZE,…", help="Where its size is baked in, an artifact for each: seq=16,32."),
    ] = None,
    probes: Annotated[str, typer.Option(metavar="auto|off|deep", help="How much the check tries.")] = "auto",
    budget: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Processor time that the check may take.")
    ] = None,
    open_contract: Annotated[
        bool, typer.Option("--open", help="Answer sizes that were never tried, with a warning, instead of refusing.")
    ] = False,
    gradients: Annotated[bool, typer.Option("--gradients", help="Compare gradients as well.")] = False,
    freeze: Annotated[bool, typer.Option("--freeze", help="Serve the form that torch.jit.freeze makes.")] = False,
    optimize_for_inference: Annotated[
        bool, typer.Option("--optimize-for-inference", help="Serve the form that this function of torch.jit makes.")
    ] = False,
    exportability: Annotated[bool, typer.Option("--exportability", help="Try torch.export as well.")] = False,
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
    if as_is and training is not None:
        raise typer.BadParameter("--as-is leaves the model's mode as it is: give it without --training and --eval")
    if not input and not method:
        raise typer.BadParameter("say what the model is called with: --input 1x3x224x224, or --input ids=2x8:INT64")
    uploads = Uploads()
    source = _source(entrypoint, uploads)
    inputs = ShellInputs.parse(input or [], seed, uploads)
    spec: dict[str, Any] = {
        "model": name or Path(entrypoint.split(":")[0]).stem,
        "source": {**source, "init": {"kwargs": _object(init)}},
        "mode": mode,
        "training": "as-is" if as_is else bool(training),
        "example_inputs": inputs.args,
        "example_kwarg_inputs": inputs.kwargs,
        "methods": _methods(method or [], seed, uploads),
        "dynamic": size_options.dynamic(dynamic or []),
        "sizes": size_options.sizes(sizes or []),
        "buckets": size_options.buckets(buckets),
        "check": {
            "gradients": gradients,
            "probes": probes,
            "contract": "open" if open_contract else "closed",
            **({} if budget is None else {"budget_s": budget}),
        },
        "options": {
            "seed": seed,
            "strict": strict,
            "freeze": freeze,
            "optimize_for_inference": optimize_for_inference,
            "precision": precision,
            "exportability": exportability,
        },
        "devices": device or ["cpu"],
        "accept_unsound": accept_unsound,
        "force": force,
    }
    if weights:
        spec["weights"] = {"file": uploads.add(weights)}
    client = Client(url, key)
    with explained(url):
        request = client.submit(spec, uploads.files)
        _watch(client, request)
        ended = client.get(f"/trace/{request['id']}")
        _report(client, ended, printouts=printouts)
    if ended["model"] is None and ended["links"]["outputs"] is None:
        typer.echo(
            "Not registered: change what the findings name, or accept it as it is with --accept-unsound.", err=True
        )
        raise typer.Exit(REJECTED)


def _source(entrypoint: str, uploads: Uploads) -> dict[str, Any]:
    """The request's `source`."""
    path_text, _, rest = entrypoint.partition(":")
    path = Path(path_text)
    if path.suffix not in (".py", ".zip", *ARCHIVES):
        raise typer.BadParameter(f"{path_text!r} is neither a .py nor a .zip nor a .pt file; write net.py:Net")
    if not path.is_file():
        raise typer.BadParameter(f"there is no file {path}")
    if path.suffix in ARCHIVES:
        return {"archive": uploads.add(path), **({"entrypoint": rest} if rest else {})}
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


def _methods(texts: list[str], seed: int, uploads: Uploads) -> dict[str, Any]:
    """The request's `methods`."""
    methods: dict[str, Any] = {}
    for text in texts:
        name, written, given = text.partition("=")
        if not written:
            raise typer.BadParameter(f"{text!r} names no inputs; write {name}=1x3, or {name}=1x3,w=4")
        inputs = ShellInputs.parse_list(given, seed, uploads)
        methods[name] = {"example_inputs": inputs.args, "example_kwarg_inputs": inputs.kwargs}
    return methods


def _object(text: str) -> dict[str, Any]:
    try:
        value = orjson.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"--init is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise typer.BadParameter("--init is a JSON object of keyword arguments")
    return value


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


def _report(client: Client, request: dict[str, Any], *, printouts: bool) -> None:
    if request["state"] != "succeeded":
        raise ServiceRefused(request["problem"] or {"title": "The trace request was cancelled", "code": "cancelled"})
    if outputs := request["links"]["outputs"]:
        typer.echo(orjson.dumps(client.get(outputs), option=orjson.OPT_INDENT_2))
        return
    artifacts = [client.get(f"/artifacts/{artifact['digest']}") for artifact in request["artifacts"]]
    for artifact in artifacts:
        _show(client, artifact, printouts=printouts)
    harmless = [finding for finding in request["findings"] if finding["effect"] == "harmless"]
    told = {_place(finding) for finding in request["findings"] if finding["kind"] in BAKED}
    for finding in request["findings"]:
        if finding in harmless or (finding["kind"] == Kind.TRACER_WARNING and _place(finding) in told):
            continue
        where = f"{finding['file']}:{finding['line']}: " if finding["file"] else ""
        typer.echo(printable(f"{where}{finding['kind']}: {finding['detail']}"))
        if finding["remedy"]:
            typer.echo(printable(f"  remedy: {finding['remedy']}"))
    if harmless:
        typer.echo(f"{len(harmless)} harmless: the report says why")
    for artifact in artifacts:
        for line in _making(artifact):
            typer.echo(printable(f"{artifact['device']}: {line}" if len(artifacts) > 1 else line))
    model = request["model"]
    served = f"{model['name']}:{model['version']}" if model else "not registered"
    digests = ", ".join(artifact["digest"] for artifact in request["artifacts"])
    typer.echo(f"verdict: {request['verdict']}   model: {served}   artifact: {digests}")
    for artifact in artifacts:
        typer.echo(f"report: {client.address(artifact['links']['report'])}")


def _place(finding: dict[str, Any]) -> tuple[Any, Any]:
    return finding["file"], finding["line"]


def _making(artifact: dict[str, Any]) -> Iterator[str]:
    """What mode auto did, and what is made of the archive where it is served."""
    if artifact["attempts"]:
        yield _made_by(artifact)
    if artifact["optimize_for_inference"] or artifact["freeze"]:
        form = "optimize_for_inference" if artifact["optimize_for_inference"] else "freeze"
        yield f"form to be served: what torch.jit.{form} makes of the archive"


def _made_by(artifact: dict[str, Any]) -> str:
    [kept] = [attempt for attempt in artifact["attempts"] if attempt["kept"]]
    if kept["way"] == "trace" and artifact["form"] != "traced":
        return f"made by: no way of its own, for the model was {artifact['form']} before"
    others = [
        f"{each['way']} → {each['verdict'] or 'no artifact'}" for each in artifact["attempts"] if each is not kept
    ]
    return f"made by: {kept['way']}" + (f" (tried: {'; '.join(others)})" if others else "")


def _show(client: Client, artifact: dict[str, Any], *, printouts: bool) -> None:
    """The artifact's contract, what the check left out and, where asked for, exportability, graph and code."""
    out.print(contract_table.table_of(artifact["contract"], artifact["bucket"]))
    if artifact["contract"]["open"]:
        typer.echo("open: sizes that were never tried are answered, with a warning")
    for line in (*contract_table.sizes_of(artifact["contract"]), *contract_table.left_out_of(artifact["check"])):
        typer.echo(printable(line))
    if artifact["exportability"]:
        typer.echo(printable(f"exportability: {artifact['exportability']['note']}"))
    if not printouts:
        return
    for kind in ("graph", "code"):
        for method in artifact["contract"]["methods"]:
            out.rule(f"{kind} of {method}", align="left")
            # As torch prints it: never wrapped, cropped or taken for markup.
            typer.echo(printable(client.text(f"{artifact['links']['printouts']}/{kind}", method=method)))
