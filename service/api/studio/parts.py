"""The parts of the studio's pages that show what a tenant has: HTML that the page puts in its place."""

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import orjson
from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse

from service.api.context import AppContext, ContextDep, EngineDep, StoreDep
from service.api.downloads import BLOB_ERRORS
from service.api.http.access import ACCESS_RESPONSES, MayRead
from service.api.http.in_turn import InTurn, draw, run
from service.api.models import ModelReply, Name, VersionReply, describe_model
from service.api.pagination import Cursor
from service.api.printouts import GRAPH_KINDS, Form, MethodName, Opened, SubmoduleName, read_printout
from service.api.problems import problem_responses
from service.api.studio import snippets
from service.api.studio.figures import Figures
from service.api.studio.graph_view import graph_view
from service.api.studio.rendering import render
from service.api.studio.source_view import Line, excerpt, marked_files
from service.api.studio.sources import submitted_sources
from service.api.trace_requests import RequestId, TraceRequestReply, TraceRequestSummary
from service.domain.errors import InvalidCursor, ModelNotFound, PictureNotTaken, TraceRequestNotFound, VersionNotFound
from service.domain.trace_request import State
from service.serving.picture_input import PictureInput, image_readings, picture_input
from service.storage.database import Store
from tracehouse.artifact.manifest import Artifact, GraphKind
from tracehouse.artifact.printouts import EncodedPrintout
from tracehouse.contract.dims import format_sizes
from tracehouse.errors import InvalidRequest, PrintoutNotFound
from tracehouse.findings.kinds import entry_of, path_of
from tracehouse.findings.verdict_sentence import verdict_sentence
from tracehouse.report.causes import Cause, causes_of, harmless
from tracehouse.report.changes import Changes, Traced, compare
from tracehouse.report.report import SIGNS, render_contract, render_depending_rows, render_layers, verdict_note

router = APIRouter(prefix="/studio/parts", include_in_schema=False, responses=ACCESS_RESPONSES, route_class=InTurn)

# Chosen: what fits on a page.
_PAGE = 20
_SEARCH_MAX = 64  # characters, as of a model's name

Chosen = Annotated[int, Query(alias="artifact", ge=0, lt=1000, description="The place of an artifact in the list.")]


@router.get("/requests", responses=problem_responses(InvalidRequest, InvalidCursor))
def get_requests(
    store: StoreDep,
    engine: EngineDep,
    caller: MayRead,
    state: State | None = None,
    search: Annotated[str | None, Query(max_length=_SEARCH_MAX)] = None,
    cursor: Cursor = None,
) -> HTMLResponse:
    """Return a page of trace requests, newest first, of one state, with a part of the model's name."""
    page = store.trace_requests.list(caller.tenant, _PAGE, cursor, state=state, search=search)
    requests = [TraceRequestSummary.of(one, engine) for one in page.items]
    return HTMLResponse(
        render(
            "requests.html",
            requests=requests,
            next_cursor=page.next_cursor,
            is_filtered=bool(state or search or cursor),
            is_live=any(not one.state.is_final for one in requests),
            signs=SIGNS,
        )
    )


@router.get("/models")
def get_models(store: StoreDep, caller: MayRead) -> HTMLResponse:
    """Return the first models by name."""
    models = store.models.list(caller.tenant, _PAGE).items
    return HTMLResponse(render("models.html", models=[ModelReply.of(one) for one in models]))


@router.get("/trace/{id}", responses=problem_responses(InvalidRequest, TraceRequestNotFound, *BLOB_ERRORS))
async def get_trace(
    request: Request,
    context: ContextDep,
    caller: MayRead,
    request_id: RequestId,
    chosen: Chosen = 0,
    before: Annotated[
        str | None, Query(pattern="^[0-9a-f]{32}$", description="The request whose source was edited.")
    ] = None,
) -> Response:
    """Return what is known of a trace request by now, with one of its artifacts, beside the request before."""
    read = partial(_read_trace, context, caller.tenant, request_id, chosen, before)
    return HTMLResponse(await draw(request, read, _write_trace))


@router.get("/spec/{id}", responses=problem_responses(InvalidRequest, TraceRequestNotFound))
def get_spec(store: StoreDep, caller: MayRead, request_id: RequestId) -> Response:
    """Return what was submitted, to be edited and sent again; null if files were uploaded, which are not sent again."""
    submitted = store.trace_requests.get(caller.tenant, request_id)
    spec = None if submitted.files else submitted.spec.model_dump(mode="json", exclude_unset=True)
    return Response(orjson.dumps(spec), media_type="application/json")


@router.get(
    "/graph/{id}",
    responses=problem_responses(InvalidRequest, TraceRequestNotFound, PrintoutNotFound, *BLOB_ERRORS),
)
async def get_graph(
    request: Request,
    store: StoreDep,
    caller: MayRead,
    request_id: RequestId,
    chosen: Chosen = 0,
    form: Form = "inlined",
    method: MethodName = "forward",
    submodule: SubmoduleName = "",
    opened: Opened = [],  # noqa: B006 - FastAPI takes a default this way, and copies it
) -> Response:
    """Return a graph's boxes with their places, and the source beside it, as JSON."""
    read = partial(_read_graph, store, caller.tenant, request_id, chosen, GRAPH_KINDS[form], method, submodule)
    written = await draw(request, read, partial(_write_graph, opened=opened))
    return Response(written, media_type="application/json")


@router.get("/models/{name}", responses=problem_responses(InvalidRequest, ModelNotFound, VersionNotFound, *BLOB_ERRORS))
async def get_model(
    request: Request,
    context: ContextDep,
    caller: MayRead,
    name: Name,
    version: Annotated[int | None, Query(ge=1, lt=10**9, description="Default: the default version.")] = None,
    beside: Annotated[int | None, Query(ge=1, lt=10**9, description="The version that it is compared with.")] = None,
) -> Response:
    """Return a model's versions and aliases, and one version's contract with a form to ask it."""
    read = partial(_read_model, context, caller.tenant, name, version, beside)
    return HTMLResponse(await draw(request, read, partial(_write_model, address=_address(request))))


@router.get("/models/{name}/figures", responses=problem_responses(InvalidRequest, ModelNotFound, VersionNotFound))
async def get_figures(
    request: Request, context: ContextDep, caller: MayRead, name: Name, version: Annotated[int, Query(ge=1, lt=10**9)]
) -> Response:
    """Return what a version was asked, and what its processes do now."""
    model = await run(request, context.store.models.get, caller.tenant, name)
    digests = _digests(_version_of(ModelReply.of(model), version))
    states = context.inference.runner_states(caller.tenant, [*digests.values()])
    counted = context.inference.statistics.of((caller.tenant, name, version))
    figures = Figures.of(counted, [*zip(digests, states, strict=True)])
    return HTMLResponse(render("figures.html", figures=figures), headers={"Cache-Control": "no-store"})


def _digests(version: VersionReply) -> dict[str, str]:
    """Return the digest of each of a version's artifacts, by its device and its bucket."""
    if version.buckets:
        return {f"{one.device}, {format_sizes(one.sizes)}": one.digest for one in version.buckets}
    return version.artifacts


def _version_of(model: ModelReply, number: int) -> VersionReply:
    version = next((one for one in model.versions if one.version == number), None)
    if version is None:
        raise VersionNotFound(f"{model.name} has no version {number}", name=model.name, version=number)
    return version


@dataclass(frozen=True, slots=True)
class _Trace:
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
    before: "_Trace | None"


def _read_trace(
    context: AppContext,
    tenant: str,
    request_id: str,
    chosen: int,
    before: str | None = None,
    *,
    has_graph: bool = False,
) -> _Trace:
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
        earlier = _read_trace(context, tenant, before, 0, has_graph=True)
    return _Trace(
        reply=TraceRequestReply.of(status, context.engine),
        entrypoint=source.entrypoint or source.archive or "",
        chosen=chosen,
        artifact=artifact,
        is_signed=is_signed,
        sources=submitted_sources(store, tenant, request_id, artifact) if status.state.is_final else {},
        methods=[*artifact.contract.methods] if artifact else [],
        can_edit=source.files is not None and not uploads,
        graph=_graph_of(store, tenant, status.artifacts[chosen].digest)
        if artifact and (earlier or has_graph)
        else None,
        before=earlier,
    )


def _graph_of(store: Store, tenant: str, digest: str) -> EncodedPrintout | None:
    try:
        return read_printout(store, tenant, digest, "inlined_graph", "forward", "")
    except PrintoutNotFound:
        return None


def _write_trace(trace: _Trace) -> str:
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


def _changes(before: _Trace, after: _Trace, causes: Sequence[Cause]) -> Changes:
    earlier = causes_of(before.artifact.check.findings if before.artifact else before.reply.findings)
    return compare(_traced(earlier, before.artifact, before.graph), _traced(causes, after.artifact, after.graph))


def _traced(causes: Sequence[Cause], artifact: Artifact | None, graph: EncodedPrintout | None) -> Traced:
    return Traced(causes, artifact.contract if artifact else None, graph.decode() if graph else None)


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


@dataclass(frozen=True, slots=True)
class _Graph:
    encoded: EncodedPrintout
    sources: dict[str, str]


def _read_graph(
    store: Store, tenant: str, request_id: str, chosen: int, kind: GraphKind, method: str, submodule: str
) -> _Graph:
    status = store.trace_requests.status(tenant, request_id)
    if not status.artifacts:
        raise PrintoutNotFound("the trace request has no artifact, so it has no graph", kind=kind)
    digest = status.artifacts[min(chosen, len(status.artifacts) - 1)].digest
    encoded = read_printout(store, tenant, digest, kind, method, submodule)
    return _Graph(encoded, submitted_sources(store, tenant, request_id, store.artifacts.get(tenant, digest)))


def _write_graph(graph: _Graph, opened: Sequence[str]) -> bytes:
    return orjson.dumps(graph_view(graph.encoded.decode(), graph.sources, opened))


@dataclass(frozen=True, slots=True)
class _Model:
    """What the page of a model shows: all of its versions, and of one version the artifact that answers first."""

    reply: ModelReply
    version: VersionReply
    artifact: Artifact
    device: str
    graph: EncodedPrintout | None
    pictures: dict[str, PictureInput]  # by the methods that take pictures
    beside: "_Model | None"


def _read_model(
    context: AppContext, tenant: str, name: str, number: int | None, beside: int | None, *, has_graph: bool = False
) -> _Model:
    store = context.store
    model = store.models.get(tenant, name)
    reply = describe_model(context, tenant, model)
    version = _version_of(reply, number or reply.default_version or max(one.version for one in reply.versions))
    device, digest = next(iter(version.artifacts.items()))
    [trace_request] = [one.trace_request for one in model.versions if one.version == version.version]
    return _Model(
        reply=reply,
        version=version,
        artifact=store.artifacts.get(tenant, digest),
        device=device,
        pictures=_picture_inputs(store, tenant, trace_request, _digests(version).values()),
        graph=_graph_of(store, tenant, digest) if has_graph or beside is not None else None,
        beside=None if beside is None else _read_model(context, tenant, name, beside, None, has_graph=True),
    )


def _picture_inputs(store: Store, tenant: str, trace_request: str, digests: Collection[str]) -> dict[str, PictureInput]:
    """Return the inputs that pictures become, by the methods of a version that take them as `POST /infer` does."""
    readings = image_readings(store.trace_requests.get(tenant, trace_request).spec.check.samples)
    contracts = [store.artifacts.get(tenant, digest).contract for digest in digests] if readings else []
    found = {}
    for method, read in readings.items():
        with suppress(PictureNotTaken):
            found[method] = picture_input([contract.methods[method] for contract in contracts], read)
    return found


def _write_model(model: _Model, address: str) -> str:
    reference = f"{model.reply.name}:{model.version.version}"
    contract = model.artifact.contract
    return render(
        "model_part.html",
        model=model.reply,
        version=model.version,
        device=model.device,
        signs=SIGNS,
        note=verdict_note(model.artifact),
        rows_depend=render_depending_rows(model.artifact.check),
        sentence=verdict_sentence(model.artifact.check, contract),
        contract=render_contract(model.artifact),
        beside=model.beside.version if model.beside else None,
        changes=_changes_of_versions(model.beside, model) if model.beside else None,
        methods=contract.methods,
        pictures=model.pictures,
        snippets={
            name: snippets.of_method(method, name, reference, address, takes_pictures=name in model.pictures)
            for name, method in contract.methods.items()
        },
    )


def _changes_of_versions(before: _Model, after: _Model) -> Changes:
    earlier, later = (
        _traced(causes_of(one.artifact.check.findings), one.artifact, one.graph) for one in (before, after)
    )
    return compare(earlier, later)


def _address(request: Request) -> str:
    return f"{request.url.scheme}://{request.url.netloc}"
