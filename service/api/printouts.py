"""Printouts of an artifact: as text, as JSON, and graphs as pictures too."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, get_args
from urllib.parse import urlencode

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import PlainTextResponse

from service.api.artifacts import Digest
from service.api.context import StoreDep
from service.api.downloads import BLOB_ERRORS, IMMUTABLE
from service.api.http.access import ACCESS_RESPONSES, MayRead
from service.api.http.body import parse_aside
from service.api.http.in_turn import InTurn, draw, fetch
from service.api.problems import problem_responses
from service.domain.errors import ArtifactNotFound
from service.storage.database import Store
from tracehouse.artifact.manifest import GraphKind, PrintoutKind
from tracehouse.artifact.printouts import EncodedPrintout, Printouts
from tracehouse.errors import InvalidRequest, PrintoutNotFound, PrintoutsUnreadable
from tracehouse.frozen import Frozen
from tracehouse.report.graph import dot, svg

router = APIRouter(tags=["Artifacts"], responses=ACCESS_RESPONSES, route_class=InTurn)

Format = Literal["text", "json", "dot", "svg"]
GraphForm = Literal["graph", "inlined", "onnx-trace"]

Form = Annotated[
    GraphForm,
    Query(
        alias="form",
        description="`graph` as torch has it, `inlined` with the submodules' graphs, or as torch.onnx has it.",
    ),
]
MethodName = Annotated[str, Query(max_length=200, description="A traced method.")]
SubmoduleName = Annotated[
    str, Query(max_length=500, description="A submodule's dotted name. Default: the model itself.")
]
Opened = Annotated[
    list[Annotated[str, Query(max_length=500)]],
    Query(
        alias="open",
        max_length=50,
        description="In a picture, a submodule whose inside is drawn instead of one box. Repeat for more.",
    ),
]

GRAPH_KINDS: dict[GraphForm, GraphKind] = {"graph": "graph", "inlined": "inlined_graph", "onnx-trace": "onnx_trace"}

# A browser may open the picture as a page: nothing in it may run or load.
_SVG_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox"

_MEDIA_TYPES: dict[Format, str] = {
    "text": "text/plain",
    "json": "application/json",
    "dot": "text/vnd.graphviz",
    "svg": "image/svg+xml",
}

# Servers may refuse longer addresses.
_ADDRESS_MAX = 8000

_CONTENT: dict[str, Any] = {
    "application/json": {"schema": {"$ref": "#/components/schemas/Printout"}},
    "text/vnd.graphviz": {"schema": {"type": "string"}},
    "image/svg+xml": {"schema": {"type": "string"}},
}
_PROBLEMS = problem_responses(InvalidRequest, ArtifactNotFound, PrintoutNotFound, PrintoutsUnreadable, *BLOB_ERRORS)


class PrintoutIndexEntry(Frozen):
    """A method of a submodule and its kinds of printouts. Printouts of a whole module have the method ""."""

    method: str
    submodule: str
    kinds: list[PrintoutKind]


class PrintoutIndex(Frozen):
    """The printouts, those of the model itself first."""

    printouts: list[PrintoutIndexEntry]


@router.get(
    "/artifacts/{digest}/printouts",
    summary="List an artifact's printouts",
    responses=problem_responses(InvalidRequest, ArtifactNotFound, PrintoutsUnreadable, *BLOB_ERRORS),
)
def list_printouts(response: Response, store: StoreDep, caller: MayRead, digest: Digest) -> PrintoutIndex:
    """Lists the methods of the submodules that have printouts, and their kinds."""
    kinds_of: dict[tuple[str, str], list[PrintoutKind]] = {}
    with _printouts(store, caller.tenant, digest) as printouts:
        for each in printouts.entries:
            kinds_of.setdefault((each.submodule, each.method), []).append(each.kind)
    response.headers.update(IMMUTABLE)
    return PrintoutIndex(
        printouts=[
            PrintoutIndexEntry(method=method, submodule=submodule, kinds=kinds)
            for (submodule, method), kinds in kinds_of.items()
        ]
    )


@router.get(
    "/artifacts/{digest}/printouts/{kind}",
    response_class=PlainTextResponse,
    summary="Read a printout",
    responses={
        200: {
            "description": "The text that torch prints, JSON with each node's place in the source, or a picture.",
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
    kind: Annotated[PrintoutKind, Path(description="The kind of printout.")],
    method: MethodName = "forward",
    submodule: SubmoduleName = "",
    form: Annotated[
        Format | None, Query(alias="format", description="Takes precedence over the header `Accept`.")
    ] = None,
    opened: Opened = [],  # noqa: B006 - FastAPI takes a default this way, and copies it
) -> Response:
    """`graph` and `inlined_graph` are torch's graphs; the latter contains the submodules' graphs.

    `onnx_trace` is the flat graph that torch.onnx takes, with parameters among its inputs; only the model itself has
    one. `code` is the TorchScript source that torch makes of the graph; `code_with_constants` adds the tensors that it
    refers to. A `dump` lists the modules and their attributes; it belongs to no method.

    A printout of more than 4 MiB is cut, and its last line says so.
    """
    wants_json = form is None and "application/json" in request.headers.get("accept", "")
    read = partial(read_printout, store, caller.tenant, digest, kind, "" if kind == "dump" else method, submodule)
    return await _reply(request, read, "json" if wants_json else form or "text", opened)


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
    form: Annotated[Format, Query(alias="format", description="The format of the reply.")] = "json",
    opened: Opened = [],  # noqa: B006
) -> Response:
    """Returns a graph. `onnx-trace` is what `torch.jit._get_trace_graph` makes: flat, with parameters as inputs."""
    read = partial(read_printout, store, caller.tenant, digest, GRAPH_KINDS[graph], method, submodule)
    return await _reply(request, read, form, opened)


@router.get(
    "/artifacts/{digest}/graph.svg",
    response_class=Response,
    summary="Draw a graph",
    responses={
        200: {
            "description": "A picture: operators in layers, coloured by module, each with its place in the source.",
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
    """Draws the graph without constants. In a large graph, submodules are boxes that `open` opens."""
    read = partial(read_printout, store, caller.tenant, digest, GRAPH_KINDS[form], method, submodule)
    return await _reply(request, read, "svg", opened)


async def _reply(request: Request, read: Callable[[], EncodedPrintout], form: Format, opened: list[str]) -> Response:
    headers = {**IMMUTABLE, "Vary": "Accept, Authorization"}
    if form in ("dot", "svg"):
        written = await draw(request, read, partial(_draw, form=form, opened=opened, link=_link(request)))
    else:
        encoded = await fetch(request, read)
        written = await parse_aside(request, len(encoded.text), _write, encoded, form)
    if form == "svg":
        headers["Content-Security-Policy"] = _SVG_POLICY
    return Response(written, media_type=_MEDIA_TYPES[form], headers=headers)


def _write(encoded: EncodedPrintout, form: Format) -> str:
    printout = encoded.decode()
    return printout.text if form == "text" else printout.model_dump_json()


def _draw(encoded: EncodedPrintout, form: Format, opened: list[str], link: svg.Link | None) -> str:
    printout = encoded.decode()
    if printout.kind not in get_args(GraphKind):
        raise InvalidRequest(
            f"{printout.kind} is no graph: it has the formats text and json",
            formats=["text", "json"],
            kinds=list(get_args(GraphKind)),
        )
    return dot.write(printout, opened, link) if form == "dot" else svg.draw(printout, opened, link)


@dataclass(frozen=True, slots=True)
class _Link:
    """The link of a box to the same picture with the box open; `query` is that of this picture."""

    query: str

    def __call__(self, path: str) -> str:
        return "?" + "&".join(filter(None, [self.query, urlencode({"open": path})]))


def _link(request: Request) -> svg.Link | None:
    """Return how a box of the picture links to its open form; None if that address would be too long."""
    query = urlencode(request.query_params.multi_items())
    if len(query) > _ADDRESS_MAX:
        return None
    return _Link(query)


@contextmanager
def _printouts(store: Store, tenant: str, digest: str) -> Iterator[Printouts]:
    with store.blobs.open(store.artifacts.printouts(tenant, digest).digest) as file:
        yield Printouts(file, digest)


def read_printout(
    store: Store, tenant: str, digest: str, kind: PrintoutKind, method: str, submodule: str
) -> EncodedPrintout:
    with _printouts(store, tenant, digest) as printouts:
        return printouts.read_encoded(kind, method, submodule)
