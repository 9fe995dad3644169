"""What `tracehouse trace` and `tracehouse check` print at the end: contract, printouts, findings and verdict."""

from collections.abc import Callable, Iterator
from typing import Any

import typer
from rich.console import Console

from service.cli import contract_table
from service.cli.artifacts import describe_part, read_artifacts
from service.cli.connection import Client
from service.cli.json_output import print_json
from service.cli.remedy_options import Command, remedy_lines
from service.cli.trace_requests import require_success
from tracehouse.client.errors import UnexpectedReply
from tracehouse.client.results import explain_unreadable
from tracehouse.errors import MalformedTensors
from tracehouse.findings.kinds import BAKED, SAID_FIRST, Kind
from tracehouse.printable_text import printable, printable_line
from tracehouse.report.counterexample_text import READ_MAX_BYTES, Arrays, counterexample_line, read_inputs

Document = dict[str, Any]
ReadPrintout = Callable[[Document, str, str], str]  # of an artifact, by kind and method
ReadArrays = Callable[[Document, int], Arrays]  # of an artifact, by the number of the counterexample

_out = Console()


def print_document(client: Client, request: Document) -> None:
    """Print, for programs, a request that has ended and its artifacts, as the service has them."""
    artifacts = read_artifacts(client, [artifact["digest"] for artifact in request["artifacts"]])
    print_json({"trace_request": request, "artifacts": artifacts})


def print_report(client: Client, request: Document, *, printouts: bool) -> None:
    """Print the result of a request that succeeded; otherwise raise ServiceRefused."""
    require_success(request)
    if outputs := request["links"]["outputs"]:
        print_json(client.get(outputs))
        return
    artifacts = read_artifacts(client, [artifact["digest"] for artifact in request["artifacts"]])

    def read(artifact: Document, kind: str, method: str) -> str:
        return client.text(f"{artifact['links']['printouts']}/{kind}", method=method)

    def read_arrays(artifact: Document, number: int) -> Arrays:
        content = client.download(f"/artifacts/{artifact['digest']}/counterexamples/{number}.npz")
        try:
            return read_inputs(content)
        except MalformedTensors as error:
            raise UnexpectedReply(f"the inputs of counterexample {number} cannot be read ({error})") from error

    print_result(request["findings"], artifacts, read if printouts else None, read_arrays, "trace")
    model = request["model"]
    served = f"{model['name']}:{model['version']}" if model else "not registered"
    digests = ", ".join(artifact["digest"] for artifact in request["artifacts"])
    print_verdict(request["verdict"], artifacts, f"   model: {served}   artifact: {digests}")
    if model and request["promotion"]:
        _print_promotion(model, request["promotion"])
    for artifact in artifacts:
        typer.echo(f"report: {client.address(artifact['links']['report'])}")


def print_result(
    findings: list[Document],
    artifacts: list[Document],
    read: ReadPrintout | None,
    read_arrays: ReadArrays,
    command: Command,
) -> None:
    """Print findings and artifacts, as the service has them in JSON, and how the artifacts were made.

    `read` returns a printout of an artifact; without it, none is printed. `read_arrays` returns a
    counterexample's inputs.
    """
    first = [finding for finding in findings if finding["kind"] in SAID_FIRST]
    _print_findings(first, command)
    for artifact in artifacts:
        _print_artifact(artifact, read)
    _print_findings([finding for finding in findings if finding not in first], command)
    for artifact in artifacts:
        lines = [*counterexample_lines(artifact, read_arrays)]
        if lines:
            where = f" of {describe_part(artifact)}" if len(artifacts) > 1 else ""
            typer.echo(
                printable(f"inputs{where} on which the model and the trace differ, the smallest that were found:")
            )
        for line in lines:
            typer.echo(printable(f"  {line}"))
    for artifact in artifacts:
        for line in _origin_lines(artifact):
            typer.echo(printable(f"{artifact['device']}: {line}" if len(artifacts) > 1 else line))


def counterexample_lines(artifact: Document, read_arrays: ReadArrays) -> Iterator[str]:
    """Yield a line for each counterexample: the call, with the inputs' values if they are few, and what differs."""
    for number, one in enumerate(artifact["counterexamples"]):
        difference = f"{one['output']}: {one['difference']}"
        if one["arrays"]["byte_size"] <= READ_MAX_BYTES:
            yield counterexample_line(number, one["method"], read_arrays(artifact, number), difference)
        else:
            shapes = ", ".join(f"{spec['name']} {spec['shape']}" for spec in one["inputs"])
            yield f"{number}. {one['method']} with {shapes}: {difference}"


def print_verdict(verdict: str, artifacts: list[Document], more: str = "") -> None:
    """Print the verdict's sentence, with `more` behind it."""
    whole, *parts = verdict_sentences(verdict, artifacts)
    for part in parts:
        typer.echo(printable(part))
    typer.echo(printable(f"verdict: {whole}{more}"))


def verdict_sentences(verdict: str, artifacts: list[Document]) -> list[str]:
    """Return the verdict's sentence; if the artifacts differ in theirs, the verdict alone and then a line for each."""
    sentences = {artifact["verdict_sentence"] for artifact in artifacts}
    if len(sentences) == 1:
        return [*sentences]
    return [verdict, *(f"{describe_part(artifact)}: {artifact['verdict_sentence']}" for artifact in artifacts)]


def _print_promotion(model: Document, promotion: Document) -> None:
    """Say whether the version answers requests that name none, unless it is the first and nobody expects less."""
    if promotion["promoted"] and model["version"] == 1:
        return
    typer.echo(printable_line(f"promoted: {'yes' if promotion['promoted'] else 'no'}: {promotion['reason']}"))
    if not promotion["promoted"]:
        typer.echo(printable_line(f"  remedy: tracehouse promote {model['name']}:{model['version']}"))


def _print_findings(findings: list[Document], command: Command) -> None:
    """Print the findings that may do harm. A warning of torch is left out if another finding names the same line."""
    harmless = [finding for finding in findings if finding["effect"] == "harmless"]
    baked = {_place(finding) for finding in findings if finding["kind"] in BAKED}
    for finding in findings:
        if finding in harmless or (finding["kind"] == Kind.TRACER_WARNING and _place(finding) in baked):
            continue
        where = f"{finding['file']}:{finding['line']}: " if finding["file"] else ""
        typer.echo(printable(f"{where}{finding['kind']}: {finding['detail']}"))
        if finding["remedy"]:
            for line in remedy_lines(finding["remedy"], command):
                typer.echo(printable(line))
    if harmless:
        typer.echo(f"{len(harmless)} harmless: the report says why")


def _place(finding: Document) -> tuple[Any, Any]:
    return finding["file"], finding["line"]


def _origin_lines(artifact: Document) -> Iterator[str]:
    """Yield what mode auto did, and the form in which the archive is served."""
    if artifact["attempts"]:
        yield _attempts_line(artifact)
    if artifact["optimize_for_inference"] or artifact["freeze"]:
        form = "optimize_for_inference" if artifact["optimize_for_inference"] else "freeze"
        yield f"form to be served: what torch.jit.{form} makes of the archive"


def _attempts_line(artifact: Document) -> str:
    kept = next((attempt for attempt in artifact["attempts"] if attempt["kept"]), None)
    if kept is None:
        raise UnexpectedReply("the answer has no conversion that was kept: is it a Tracehouse service's?")
    if kept["way"] == "trace" and artifact["form"] != "traced":
        return f"made by: none of these ways, for the model was {artifact['form']} already"
    others = [
        f"{each['way']} → {each['verdict'] or 'no artifact'}" for each in artifact["attempts"] if each is not kept
    ]
    return f"made by: {kept['way']}" + (f" (tried: {'; '.join(others)})" if others else "")


def _print_artifact(artifact: Document, read: ReadPrintout | None) -> None:
    """Print the artifact's contract, what the check left out, its exportability and, if they can be read, graph and
    code."""
    _out.print(contract_table.contract_table(artifact["contract"], artifact["bucket"]))
    if artifact["contract"]["open"]:
        typer.echo("open: sizes that were never tried are answered, with a warning")
    contract, check = artifact["contract"], artifact["check"]
    with explain_unreadable(artifact, "contracts and checks"):
        lines = [
            *contract_table.size_lines(contract),
            *contract_table.coverage_lines(check),
            *contract_table.compared_lines(check),
            *contract_table.left_out_lines(check),
        ]
    for line in lines:
        typer.echo(printable(line))
    if artifact["exportability"]:
        typer.echo(printable(f"exportability: {artifact['exportability']['note']}"))
    if read is None:
        return
    for kind in ("graph", "code"):
        for method in artifact["contract"]["methods"]:
            _out.rule(f"{kind} of {method}", align="left")
            # As torch prints it: never wrapped, cropped or taken for markup.
            typer.echo(printable(read(artifact, kind, method)))
