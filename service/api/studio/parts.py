"""The parts of the studio's pages that show what a tenant has: HTML that the page puts in its place."""

from functools import partial
from typing import Annotated

import orjson
from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse

from service.api.context import ContextDep, EngineDep, StoreDep
from service.api.downloads import BLOB_ERRORS
from service.api.http.access import ACCESS_RESPONSES, MayRead
from service.api.http.in_turn import InTurn, draw, run
from service.api.model_reply import ModelReply
from service.api.models import Name
from service.api.pagination import Cursor
from service.api.printouts import GRAPH_KINDS, Form, MethodName, Opened, SubmoduleName
from service.api.problems import problem_responses
from service.api.studio.figures import Figures
from service.api.studio.graph_part import read_graph, render_graph
from service.api.studio.model_part import digests_of, find_version, read_model, render_model
from service.api.studio.rendering import render
from service.api.studio.sources import editable_submission
from service.api.studio.trace_part import read_trace, render_trace
from service.api.trace_request_reply import TraceRequestSummary
from service.api.trace_requests import RequestId
from service.domain.errors import InvalidCursor, ModelNotFound, TraceRequestNotFound, VersionNotFound
from service.domain.trace_request import State
from service.serving.runner import RunnerState
from tracehouse.errors import InvalidRequest, PrintoutNotFound
from tracehouse.report.verdict_note import SIGNS

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
    read = partial(read_trace, context, caller.tenant, request_id, chosen, before)
    return HTMLResponse(await draw(request, read, render_trace))


@router.get("/spec/{id}", responses=problem_responses(InvalidRequest, TraceRequestNotFound, *BLOB_ERRORS))
def get_spec(store: StoreDep, caller: MayRead, request_id: RequestId) -> Response:
    """Return what was submitted, with the texts of its source, to be edited and sent again."""
    submitted = editable_submission(store, caller.tenant, request_id)
    return Response(orjson.dumps(submitted), media_type="application/json")


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
    read = partial(read_graph, store, caller.tenant, request_id, chosen, GRAPH_KINDS[form], method, submodule)
    written = await draw(request, read, partial(render_graph, opened=opened))
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
    read = partial(read_model, context, caller.tenant, name, version, beside)
    return HTMLResponse(await draw(request, read, partial(render_model, address=_address(request))))


@router.get("/models/{name}/figures", responses=problem_responses(InvalidRequest, ModelNotFound, VersionNotFound))
async def get_figures(
    request: Request, context: ContextDep, caller: MayRead, name: Name, version: Annotated[int, Query(ge=1, lt=10**9)]
) -> Response:
    """Return what a version was asked, and what its processes do now."""
    model = await run(request, context.store.models.get, caller.tenant, name)
    digests = digests_of(find_version(ModelReply.of(model), version))
    inference = context.inference
    states = [
        (place, state)
        for place, digest in digests.items()
        for state in inference.runner_states(
            caller.tenant, digest, inference.threads(caller.tenant, digest, model.serving)
        )
        or [RunnerState.GONE]
    ]
    counted = inference.statistics.of((caller.tenant, name, version))
    figures = Figures.of(counted, states)
    return HTMLResponse(render("figures.html", figures=figures), headers={"Cache-Control": "no-store"})


def _address(request: Request) -> str:
    return f"{request.url.scheme}://{request.url.netloc}"
