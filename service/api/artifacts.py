"""Artifacts: manifests, printouts, pictures and archives, under digests that never change their meaning."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import PlainTextResponse
from pydantic import Field

from service.api.access import ACCESS_RESPONSES, MayRead
from service.api.blobs import IMMUTABLE, attachment, is_known, partial_responses
from service.api.deps import StoreDep
from service.api.problems import RangeNotSatisfiable, problem_responses
from service.api.svg import draw
from service.domain.artifact import Artifact, Printout, PrintoutKind
from service.domain.blob import DIGEST_PATTERN
from service.domain.errors import ArtifactNotFound, InvalidRequest, PrintoutNotFound, PrintoutsUnreadable
from service.domain.frozen import Frozen
from service.domain.printouts import Printouts
from service.storage.database import Store

router = APIRouter(tags=["Artifacts"], responses=ACCESS_RESPONSES)

Digest = Annotated[
    str,
    Path(
        pattern=DIGEST_PATTERN,
        description="`artifacts[0].digest` of a trace request that succeeded, `sha256:` and 64 hexadecimal digits.",
    ),
]
MethodName = Annotated[str, Query(max_length=200, description="A traced method.")]
SubmoduleName = Annotated[
    str, Query(max_length=500, description="A submodule's dotted name; left out, the model itself.")
]

# A picture is opened by itself, too: nothing in it may run or load.
_SVG_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox"


class ArtifactLinks(Frozen):
    """Paths."""

    self: str
    printouts: str
    graph: str
    archive: str


class ArtifactReply(Artifact):
    """The manifest under its digest: contract, trace check, files, parameters, versions."""

    artifact_digest: str = Field(alias="digest")
    links: ArtifactLinks


class PrintoutIndexEntry(Frozen):
    """One method of one submodule, and what there is of it."""

    method: str
    submodule: str
    kinds: list[PrintoutKind]


class PrintoutIndex(Frozen):
    """The model itself first."""

    printouts: list[PrintoutIndexEntry]


_NOT_MODIFIED: dict[int | str, dict[str, Any]] = {304: {"description": "`If-None-Match` names it."}}


@router.get(
    "/artifacts/{digest}",
    summary="Read an artifact's manifest",
    responses={**_NOT_MODIFIED, **problem_responses(InvalidRequest, ArtifactNotFound)},
    response_model=ArtifactReply,
)
def get_artifact(request: Request, response: Response, store: StoreDep, caller: MayRead, digest: Digest) -> Any:
    """What it was traced from and checked on, which inputs it is right for, and what it was made with."""
    artifact = store.artifacts.get(caller.tenant, digest)
    headers = {"ETag": f'"{digest}"', **IMMUTABLE}
    if is_known(request, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    response.headers.update(headers)
    path = f"/artifacts/{digest}"
    links = ArtifactLinks(
        self=path, printouts=f"{path}/printouts", graph=f"{path}/graph.svg", archive=f"{path}/archive"
    )
    return ArtifactReply.model_validate({**dict(artifact), "digest": digest, "links": links})


@router.get(
    "/artifacts/{digest}/archive",
    response_class=Response,
    summary="Download the archive",
    responses={
        200: {
            "description": "What `torch.jit.load` takes, in Python and in C++.",
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        },
        **partial_responses(),
        **problem_responses(InvalidRequest, ArtifactNotFound, RangeNotSatisfiable),
    },
)
def get_archive(request: Request, store: StoreDep, caller: MayRead, digest: Digest) -> Response:
    """Whole, or the part that a `Range` asks for."""
    archive = store.artifacts.get(caller.tenant, digest).archive
    return attachment(request, store.blobs, archive, filename=f"{digest.removeprefix('sha256:')[:12]}.pt")


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
            "description": "As torch prints it; as JSON, with each node's place in the source.",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Printout"}}},
        },
        **problem_responses(InvalidRequest, ArtifactNotFound, PrintoutNotFound, PrintoutsUnreadable),
    },
)
def get_printout(
    request: Request,
    store: StoreDep,
    caller: MayRead,
    digest: Digest,
    kind: Annotated[PrintoutKind, Path(description="Which view of it.")],
    method: MethodName = "forward",
    submodule: SubmoduleName = "",
    form: Annotated[
        Literal["text", "json"] | None, Query(alias="format", description="Decides over the header `Accept`.")
    ] = None,
) -> Response:
    """`graph` and `inlined_graph` are torch's; `code` is the TorchScript source that it makes of them.

    One of more than 4 MiB is cut, and says so on its last line.
    """
    printout = _printout(store, caller.tenant, digest, kind, method, submodule)
    headers = {**IMMUTABLE, "Vary": "Accept, Authorization"}
    if form == "json" or (form is None and "application/json" in request.headers.get("accept", "")):
        return Response(printout.model_dump_json(), media_type="application/json", headers=headers)
    return PlainTextResponse(printout.text, headers=headers)


@router.get(
    "/artifacts/{digest}/graph.svg",
    response_class=Response,
    summary="See a graph",
    responses={
        200: {
            "description": "Operators in layers, coloured by module; each says where in the source it comes from.",
            "content": {"image/svg+xml": {"schema": {"type": "string"}}},
        },
        **problem_responses(InvalidRequest, ArtifactNotFound, PrintoutNotFound, PrintoutsUnreadable),
    },
)
def get_graph(
    store: StoreDep,
    caller: MayRead,
    digest: Digest,
    method: MethodName = "forward",
    submodule: SubmoduleName = "",
    kind: Annotated[
        Literal["graph", "inlined_graph"], Query(description="As torch has it, or with the submodules' graphs put in.")
    ] = "inlined_graph",
) -> Response:
    """The graph as a picture. Constants are left out; of a very large graph, neighbours in a module are one box."""
    picture = draw(_printout(store, caller.tenant, digest, kind, method, submodule))
    headers = {**IMMUTABLE, "Content-Security-Policy": _SVG_POLICY}
    return Response(picture, media_type="image/svg+xml", headers=headers)


@contextmanager
def _printouts(store: Store, tenant: str, digest: str) -> Iterator[Printouts]:
    with store.blobs.open(store.artifacts.get(tenant, digest).printouts.digest) as file:
        yield Printouts(file, digest)


def _printout(store: Store, tenant: str, digest: str, kind: PrintoutKind, method: str, submodule: str) -> Printout:
    with _printouts(store, tenant, digest) as printouts:
        return printouts.read(kind, method, submodule)
