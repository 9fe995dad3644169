"""Printouts of an artifact: as text, as JSON, and the graphs among them as pictures."""

from asyncio import get_running_loop
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any, Literal, get_args
from urllib.parse import urlencode

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import PlainTextResponse

from service.api.artifacts import Digest
from service.api.context import StoreDep
from service.api.downloads import IMMUTABLE
from service.api.http.access import ACCESS_RESPONSES, MayRead
from service.api.problems import problem_responses
from service.domain.errors import ArtifactNotFound
from service.storage.database import Store
from tracehouse.artifact.manifest import GraphKind, Printout, PrintoutKind
from tracehouse.artifact.printouts import Printouts
from tracehouse.errors import InvalidRequest, PrintoutNotFound, PrintoutsUnreadable
from tracehouse.frozen import Frozen
from tracehouse.report.graph import dot, svg

router = APIRouter(tags=["Artifacts"], responses=ACCESS_RESPONSES)

Format = Literal["text", "json", "dot", "svg"]
GraphForm = Literal["graph", "inlined", "onnx-trace"]

Form = Annotated[
    GraphForm,
    Query(alias="form", description="As torch has it, with the submodules' graphs put in, or as torch.onnx has it."),
]
MethodName = Annotated[str, Query(max_length=200, description="A traced method.")]
SubmoduleName = Annotated[
    str, Query(max_length=500, description="A submodule's dotted name; left out, the model itself.")
]
Opened = Annotated[
    list[Annotated[str, Query(max_length=500)]],
    Query(
        alias="open",
        max_length=50,
        description="For a picture: a submodule that is one box in it, to be shown with its inside. Repeat for more.",
    ),
]

_KINDS: dict[GraphForm, GraphKind] = {"graph": "graph", "inlined": "inlined_graph", "onnx-trace": "onnx_trace"}

# A picture is opened by itself, too: nothing in it may run or load.
_SVG_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox"

# A picture of what was made up takes a second or two, and some hundred megabytes: no number of them takes the threads
# that every other route needs.
_DRAWING = ThreadPoolExecutor(2, "drawing")
# Servers need not take longer ones.
_ADDRESS_MAX = 8000

_CONTENT: dict[str, Any] = {
    "application/json": {"schema": {"$ref": "#/components/schemas/Printout"}},
    "text/vnd.graphviz": {"schema": {"type": "string"}},
    "image/svg+xml": {"schema": {"type": "string"}},
}
_PROBLEMS = problem_responses(InvalidRequest, ArtifactNotFound, PrintoutNotFound, PrintoutsUnreadable)


class PrintoutIndexEntry(Frozen):
    """One method of one submodule, and what there is of it. What is of a module as a whole has the method ""."""

    method: str
    submodule: str
    kinds: list[PrintoutKind]


class PrintoutIndex(Frozen):
    """The model itself first."""

    printouts: list[PrintoutIndexEntry]


@router.get(
    "/artifacts/{digest}/printouts",
    summary="List an artifact's printouts",
    responses=problem_responses(InvalidRequest, ArtifactNotFound, PrintoutsUnreadable),
)
def list_printouts(response: Response, store: StoreDep, caller: MayRead, digest: Digest) -> PrintoutIndex:
    """Which methods of which submodules there are printouts of."""
    found: dict[tuple[str, str], list[PrintoutKind]] = {}
    with _printouts(store, caller.tenant, digest) as printouts:
        for each in printouts.entries:
            found.setdefault((each.submodule, each.method), []).append(each.kind)
    response.headers.update(IMMUTABLE)
    return PrintoutIndex(
        printouts=[
            PrintoutIndexEntry(method=method, submodule=submodule, kinds=kinds)
            for (submodule, method), kinds in found.items()
        ]
    )


@router.get(
    "/artifacts/{digest}/printouts/{kind}",
    response_class=PlainTextResponse,
    summary="Read a printout",
    responses={
        200: {
            "description": "As torch prints it; as JSON, with each node's place in the source; a graph as a picture.",
            "content": _CONTENT,
        },
        **_PROBLEMS,
    },
)
async def get_printout(
    request: Request,
    store: StoreDep,
    caller: MayRead,
    digest: Digest,
    kind: Annotated[PrintoutKind, Path(description="Which view of it.")],
    method: MethodName = "forward",
    submodule: SubmoduleName = "",
    form: Annotated[Format | None, Query(alias="format", description="Decides over the header `Accept`.")] = None,
    opened: Opened = [],  # noqa: B006 - FastAPI's way to say so; it copies it
) -> Response:
    """`graph` and `inlined_graph` are torch's, the latter with the submodules' graphs put in.

    `onnx_trace` is the flat graph that torch.onnx takes, parameters among its inputs; there is one of the model alone.
    `code` is the TorchScript source that torch makes of them; `code_with_constants` has below it the tensors that it
    refers to. A `dump` is of the modules and what they hold; it is of no method.

    One of more than 4 MiB is cut, and says so on its last line.
    """
    wants_json = form is None and "application/json" in request.headers.get("accept", "")
    read = partial(_printout, store, caller.tenant, digest, kind, "" if kind == "dump" else method, submodule)
    return await _answered(request, read, "json" if wants_json else form or "text", opened)


@router.get(
    "/artifacts/{digest}/graph",
    response_class=Response,
    summary="Read a graph",
    responses={
        200: {
            "description": "The graph's nodes, each with its place in the source.",
            "content": {**_CONTENT, "text/plain": {"schema": {"type": "string"}}},
        },
        **_PROBLEMS,
    },
)
async def read_graph(
    request: Request,
    store: StoreDep,
    caller: MayRead,
    digest: Digest,
    graph: Form = "inlined",
    method: MethodName = "forward",
    submodule: SubmoduleName = "",
    form: Annotated[Format, Query(alias="format", description="As which it is written.")] = "json",
    opened: Opened = [],  # noqa: B006
) -> Response:
    """`onnx-trace` is what `torch.jit._get_trace_graph` makes: flat, and the parameters are inputs of it."""
    read = partial(_printout, store, caller.tenant, digest, _KINDS[graph], method, submodule)
    return await _answered(request, read, form, opened)


@router.get(
    "/artifacts/{digest}/graph.svg",
    response_class=Response,
    summary="See a graph",
    responses={
        200: {
            "description": "Operators in layers, coloured by module; each says where in the source it comes from.",
            "content": {"image/svg+xml": {"schema": {"type": "string"}}},
        },
        **_PROBLEMS,
    },
)
async def get_graph(
    request: Request,
    store: StoreDep,
    caller: MayRead,
    digest: Digest,
    form: Form = "inlined",
    method: MethodName = "forward",
    submodule: SubmoduleName = "",
    opened: Opened = [],  # noqa: B006
) -> Response:
    """The graph as a picture, without constants. In a large one, submodules are boxes that `open` opens."""
    read = partial(_printout, store, caller.tenant, digest, _KINDS[form], method, submodule)
    return await _answered(request, read, "svg", opened)


async def _answered(request: Request, read: Callable[[], Printout], form: Format, opened: list[str]) -> Response:
    if form in ("dot", "svg"):
        # It is read there as well, so that those which wait hold nothing.
        return await get_running_loop().run_in_executor(_DRAWING, lambda: _drawn(request, read(), form, opened))
    return await run_in_threadpool(lambda: _written(read(), form))


def _headers() -> dict[str, str]:
    return {**IMMUTABLE, "Vary": "Accept, Authorization"}


def _written(printout: Printout, form: Format) -> Response:
    if form == "text":
        return PlainTextResponse(printout.text, headers=_headers())
    return Response(printout.model_dump_json(), media_type="application/json", headers=_headers())


def _drawn(request: Request, printout: Printout, form: Format, opened: list[str]) -> Response:
    if printout.kind not in get_args(GraphKind):
        raise InvalidRequest(
            f"{printout.kind} is no graph: it can be had as text and as JSON",
            formats=["text", "json"],
            kinds=list(get_args(GraphKind)),
        )

    link = _link(request)
    if form == "dot":
        return Response(dot.write(printout, opened, link), media_type="text/vnd.graphviz", headers=_headers())
    headers = {**_headers(), "Content-Security-Policy": _SVG_POLICY}
    return Response(svg.draw(printout, opened, link), media_type="image/svg+xml", headers=headers)


def _link(request: Request) -> svg.Link | None:
    """None where the address is so long that the next one could not be asked for."""
    asked = urlencode(request.query_params.multi_items())
    if len(asked) > _ADDRESS_MAX:
        return None
    return lambda path: "?" + "&".join(filter(None, [asked, urlencode({"open": path})]))


@contextmanager
def _printouts(store: Store, tenant: str, digest: str) -> Iterator[Printouts]:
    with store.blobs.open(store.artifacts.get(tenant, digest).printouts.digest) as file:
        yield Printouts(file, digest)


def _printout(store: Store, tenant: str, digest: str, kind: PrintoutKind, method: str, submodule: str) -> Printout:
    with _printouts(store, tenant, digest) as printouts:
        return printouts.read(kind, method, submodule)
