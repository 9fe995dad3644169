"""The part of the studio that shows a trace request: its state, or its verdict with causes, source and contract."""

from collections.abc import Sequence
from dataclasses import dataclass

from service.api.context import AppContext
from service.api.studio.comparison import read_inlined_graph, traced_of
from service.api.studio.rendering import render
from service.api.studio.source_view import Line, excerpt, marked_files
from service.api.studio.sources import can_edit, submitted_sources
from service.api.trace_request_reply import TraceRequestReply
from tracehouse.artifact.manifest import Artifact
from tracehouse.artifact.printouts import EncodedPrintout
from tracehouse.findings.kinds import entry_of, path_of
from tracehouse.findings.verdict_sentence import verdict_sentence
from tracehouse.report.causes import Cause, causes_of, harmless
from tracehouse.report.changes import Changes, compare
from tracehouse.report.check_section import render_depending_rows, render_layers
from tracehouse.report.contract_section import render_contract
from tracehouse.report.verdict_note import SIGNS, verdict_note


@dataclass(frozen=True, slots=True)
class TracePart:
    """What the page of a trace request shows. Without an artifact, `sources` are for the line of its problem."""

    reply: TraceRequestReply
    entrypoint: str
    chosen: int
    artifact: Artifact | None
    is_signed: bool
    sources: dict[str, str]
    methods: list[str]
    can_edit: bool
    graph: EncodedPrintout | None
    before: "TracePart | None"


def read_trace(
    context: AppContext,
    tenant: str,
    request_id: str,
    chosen: int,
    before: str | None = None,
    *,
    has_graph: bool = False,
) -> TracePart:
    """Return a trace request with the chosen one of its artifacts, beside the trace request `before`."""
    store = context.store
    status = store.trace_requests.status(tenant, request_id)
    artifact, is_signed = None, False
    if status.artifacts:
        chosen = min(chosen, len(status.artifacts) - 1)
        digest = status.artifacts[chosen].digest
        artifact = store.artifacts.get(tenant, digest)
        is_signed = store.artifacts.signature(tenant, digest) is not None
    source, uploads = store.trace_requests.source(tenant, request_id)
    earlier = None
    if before is not None and artifact is not None:
        earlier = read_trace(context, tenant, before, 0, has_graph=True)
    sources = submitted_sources(store, tenant, request_id, artifact) if status.state.is_final else {}
    return TracePart(
        reply=TraceRequestReply.of(status, context.engine),
        entrypoint=source.entrypoint or source.archive or "",
        chosen=chosen,
        artifact=artifact,
        is_signed=is_signed,
        sources=sources,
        methods=[*artifact.contract.methods] if artifact else [],
        can_edit=can_edit(source, uploads, sources),
        graph=read_inlined_graph(store, tenant, status.artifacts[chosen].digest)
        if artifact and (earlier or has_graph)
        else None,
        before=earlier,
    )


def render_trace(trace: TracePart) -> str:
    """Return the part in HTML."""
    artifact, reply = trace.artifact, trace.reply
    findings = artifact.check.findings if artifact else reply.findings
    # In the order of their numbers: what informs comes last.
    causes = sorted(causes_of(findings), key=lambda one: one.weight == "other")
    shown = {
        "reply": reply,
        "entrypoint": trace.entrypoint,
        "chosen": trace.chosen,
        "artifact": artifact,
        "digest": reply.artifacts[trace.chosen].digest if artifact else "",
        "is_signed": trace.is_signed,
        "methods": trace.methods,
        "causes": [(one, _excerpt(one, trace.sources)) for one in causes if one.weight != "other"],
        "notes": [(one, _excerpt(one, trace.sources)) for one in causes if one.weight == "other"],
        "harmless": harmless(findings),
        "files": marked_files(trace.sources, causes),
        "problem": _problem(reply, trace.sources),
        "entry_of": entry_of,
        "path_of": path_of,
        "sign": SIGNS[reply.verdict] if reply.verdict else "",
        "signs": SIGNS,
        "can_edit": trace.can_edit,
        "edited": next((one.lead.file for one in causes if one.lead.file), None),
        "before": trace.before.reply if trace.before else None,
        "changes": _changes(trace.before, trace, causes) if trace.before else None,
    }
    if artifact is not None:
        shown |= {
            "sentence": verdict_sentence(artifact.check, artifact.contract),
            "sign": SIGNS[artifact.check.verdict],
            "note": verdict_note(artifact),
            "rows_depend": render_depending_rows(artifact.check),
            "contract": render_contract(artifact),
            "layers": render_layers(artifact.check),
        }
    return render("trace_part.html", **shown)


def _changes(before: TracePart, after: TracePart, causes: Sequence[Cause]) -> Changes:
    earlier = causes_of(before.artifact.check.findings if before.artifact else before.reply.findings)
    return compare(traced_of(earlier, before.artifact, before.graph), traced_of(causes, after.artifact, after.graph))


def _excerpt(cause: Cause, sources: dict[str, str]) -> list[Line]:
    return excerpt(sources, cause.lead.file, cause.lead.line, cause.lead.source, cause.weight)


def _problem(reply: TraceRequestReply, sources: dict[str, str]) -> dict[str, object] | None:
    """Return the problem's document, with the lines around its own line if it names one."""
    if reply.problem is None:
        return None
    facts = reply.problem.model_extra or {}
    file, number, source = facts.get("file"), facts.get("line"), facts.get("source")
    lines = []
    if isinstance(file, str) and isinstance(number, int):
        lines = excerpt(sources, file, number, source if isinstance(source, str) else None, "harmful")
    return {
        "title": reply.problem.title,
        "detail": reply.problem.detail,
        "type": reply.problem.type,
        "code": reply.problem.code,
        "remedy": reply.problem.remedy,
        "place": f"{file}:{number}" if lines else "",
        "lines": lines,
    }
