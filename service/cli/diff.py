"""`tracehouse diff`: what differs between two versions, or two models."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from service.cli.artifacts import artifacts_of, describe_part
from service.cli.connection import Client, ServiceOptions, ServiceRefused, connect
from service.cli.json_output import Json, print_json
from service.cli.option_groups import with_option_groups
from service.cli.versions import NAMED, find_version
from tracehouse.printable_text import printable

Document = dict[str, Any]


@with_option_groups
def diff(
    before: Annotated[str, typer.Argument(help=f"{NAMED}.", metavar="A")],
    after: Annotated[str, typer.Argument(help=f"{NAMED}.", metavar="B")],
    as_json: Json = False,
    *,
    service: ServiceOptions,
) -> None:
    """Say what differs between two versions: verdict, causes, clauses of the contract, and operators of the graph."""
    with connect(service) as client:
        sides = [find_version(client, text) for text in (before, after)]
        parts = [{describe_part(one): one for one in artifacts_of(client, version)} for _, version in sides]
        names = [f"{name}:{version['version']}" for name, version in sides]
        both = [part for part in parts[0] if part in parts[1]]
        document = {
            "before": {"version": names[0], "verdict": sides[0][1]["verdict"]},
            "after": {"version": names[1], "verdict": sides[1][1]["verdict"]},
            "only_before": [part for part in parts[0] if part not in parts[1]],
            "only_after": [part for part in parts[1] if part not in parts[0]],
            "artifacts": [{"part": part, **_compare(client, parts[0][part], parts[1][part])} for part in both],
        }
    if as_json:
        print_json(document)
        return
    for line in _lines(document):
        typer.echo(printable(line))


def _compare(client: Client, before: Document, after: Document) -> Document:
    # Imported here, for the other commands need no comparison, and start sooner without it.
    from tracehouse.artifact.manifest import Printout
    from tracehouse.client.results import explain_unreadable, read_contract, read_findings
    from tracehouse.report.causes import causes_of
    from tracehouse.report.changes import Traced, compare

    def read(artifact: Document) -> Traced:
        with explain_unreadable(artifact, "findings"):
            causes = causes_of(read_findings(artifact["check"]["findings"]))
        return Traced(causes, read_contract(artifact), None)

    def read_graph(artifact: Document, method: str) -> Traced:
        try:
            graph = client.get(f"/artifacts/{artifact['digest']}/graph", method=method)
        except ServiceRefused as refused:
            if refused.problem.get("code") != "printout-not-found":
                raise
            return Traced([], None, None)
        with explain_unreadable(artifact, "graphs"):
            return Traced([], None, Printout.model_validate(graph))

    changes = compare(read(before), read(after), most=None)
    methods = [name for name in before["contract"]["methods"] if name in after["contract"]["methods"]]
    graphs = {name: compare(read_graph(before, name), read_graph(after, name), most=None) for name in methods}
    return {
        "gone": [_cause(one.lead) for one in changes.gone],
        "new": [_cause(one.lead) for one in changes.new],
        "clauses": [{"name": name, "before": was, "after": now} for name, was, now in changes.clauses],
        "operators": [
            {"method": method, "name": name, "before": was, "after": now}
            for method, graph in graphs.items()
            for name, was, now in graph.operators
        ],
        "graphs_not_compared": [name for name, graph in graphs.items() if not graph.has_graphs],
    }


def _cause(finding: Any) -> Document:
    return {"kind": finding.kind, "file": finding.file, "line": finding.line, "detail": finding.detail}


def _lines(document: Document) -> Iterator[str]:
    before, after = document["before"], document["after"]
    verdicts = before["verdict"], after["verdict"]
    yield f"{before['version']} → {after['version']}"
    yield f"verdict: {verdicts[0]}" + ("" if verdicts[0] == verdicts[1] else f" → {verdicts[1]}")
    for side, parts in ((before, document["only_before"]), (after, document["only_after"])):
        yield from (f"only {side['version']} has an artifact for {part}; it is not compared" for part in parts)
    for one in document["artifacts"]:
        found = [*_lines_of(one)]
        yield f"{one['part']}:{'' if found else ' nothing differs in causes, contract and graph'}"
        yield from (f"  {line}" for line in found)


def _lines_of(one: Document) -> Iterator[str]:
    for title, causes in (("gone", one["gone"]), ("new", one["new"])):
        for cause in causes:
            where = f"{cause['file']}:{cause['line']}: " if cause["file"] else ""
            yield f"{title}: {where}{cause['kind']}: {cause['detail']}"
    yield from (f"contract: {each['name']}: {each['before']} → {each['after']}" for each in one["clauses"])
    for each in one["operators"]:
        yield f"graph of {each['method']}: {each['name']}: {each['before']} → {each['after']}"
    yield from (f"graph of {name}: not compared, for it was not kept" for name in one["graphs_not_compared"])
