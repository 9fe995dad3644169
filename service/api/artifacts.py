"""Artifacts: manifests and archives. What a digest names never changes."""

import hashlib
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import Field

from service.api.context import StoreDep
from service.api.downloads import BLOB_ERRORS, REVALIDATED, attachment, client_has, partial_responses
from service.api.http.access import ACCESS_RESPONSES, MayRead
from service.api.http.in_turn import InTurn, transfers_files
from service.api.problems import RangeNotSatisfiable, problem_responses
from service.domain.errors import ArtifactNotFound, ExportedProgramNotFound
from service.domain.further_check import LaterCheck
from tracehouse.artifact.blob import DIGEST_PATTERN, BlobRef
from tracehouse.artifact.manifest import Artifact
from tracehouse.errors import InvalidRequest
from tracehouse.findings.verdict_sentence import verdict_sentence
from tracehouse.frozen import Frozen

router = APIRouter(tags=["Artifacts"], responses=ACCESS_RESPONSES, route_class=InTurn)

Digest = Annotated[
    str,
    Path(
        pattern=DIGEST_PATTERN,
        description="`artifacts[0].digest` of a trace request that succeeded, `sha256:` and 64 hexadecimal digits.",
    ),
]


class CounterexampleLinks(Frozen):
    """Where a counterexample's files are downloaded."""

    arrays: str = Field(description="An `.npz` of the inputs and of both answers.")
    test: str = Field(description="A pytest file that fails with torch alone.")


class ArtifactLinks(Frozen):
    """The paths of what belongs to an artifact."""

    self: str
    printouts: str
    graph: str
    archive: str
    signature: str | None = Field(description="What the service signed about the archive; null if it is not signed.")
    report: str = Field(description="One HTML page: verdict, contract, findings on the source, what was compared.")
    exported: str | None = Field(description="The `.pt2`; null if there is none.")
    counterexamples: list[CounterexampleLinks] = Field(description="In the order of the artifact's `counterexamples`.")


class ArtifactReply(Artifact):
    """An artifact's manifest: contract, trace check, files, parameters, versions; and what later checks came to."""

    artifact_digest: str = Field(alias="digest")
    withdrawn_by: str | None = Field(
        description="The trace request whose check found a wrong answer that this artifact promises to be right: "
        "`/infer` refuses it. Null if none did."
    )
    later_checks: list[LaterCheck] = Field(
        description="The trace requests that go on, or went on, with this artifact's check, the first one first."
    )
    verdict_sentence: str = Field(description="The verdict, and which parts of the check broke off or were cut.")
    links: ArtifactLinks


_NOT_MODIFIED: dict[int | str, dict[str, Any]] = {
    304: {"description": "Nothing changed since the reply whose ETag is in `If-None-Match`."}
}
_ETAG_DIGITS = 16


@router.get(
    "/artifacts/{digest}",
    summary="Read an artifact's manifest",
    responses={**_NOT_MODIFIED, **problem_responses(InvalidRequest, ArtifactNotFound, *BLOB_ERRORS)},
    response_model=ArtifactReply,
)
def get_artifact(request: Request, response: Response, store: StoreDep, caller: MayRead, digest: Digest) -> Any:
    """Says what was traced and checked, for which inputs the artifact is right, and which versions made it.

    All that stays as it is, but for `withdrawn_by`, `later_checks` and `links.signature`.
    """
    artifact = store.artifacts.get(caller.tenant, digest)
    later = {
        "withdrawn_by": store.artifacts.withdrawals(caller.tenant, [digest]).get(digest),
        "later_checks": store.further_checks.later(caller.tenant, digest),
    }
    is_signed = store.artifacts.signature(caller.tenant, digest) is not None
    headers = {"ETag": _etag(digest, later, is_signed), **REVALIDATED}
    if client_has(request, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    response.headers.update(headers)
    path = f"/artifacts/{digest}"
    links = ArtifactLinks(
        self=path,
        printouts=f"{path}/printouts",
        graph=f"{path}/graph.svg",
        archive=f"{path}/archive",
        signature=f"{path}/signature" if is_signed else None,
        report=f"{path}/report",
        exported=f"{path}/archive?format=pt2" if artifact.exported else None,
        counterexamples=[
            CounterexampleLinks(
                arrays=f"{path}/counterexamples/{number}.npz", test=f"{path}/counterexamples/{number}.py"
            )
            for number in range(len(artifact.counterexamples))
        ],
    )
    sentence = verdict_sentence(artifact.check, artifact.contract)
    return ArtifactReply.model_validate(
        {**dict(artifact), **later, "digest": digest, "verdict_sentence": sentence, "links": links}
    )


def _etag(digest: str, later: Mapping[str, object], is_signed: bool) -> str:
    """Return an ETag that changes with what later checks come to, and with a signature."""
    known = hashlib.sha256(repr((later, is_signed)).encode()).hexdigest()[:_ETAG_DIGITS]
    return f'"{digest} {known}"'


@router.get(
    "/artifacts/{digest}/archive",
    response_class=Response,
    summary="Download the archive",
    responses={
        200: {
            "description": "A file for `torch.jit.load`, in Python and C++; as `pt2`, one for `torch.export.load`.",
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        },
        **partial_responses(),
        **problem_responses(
            InvalidRequest, ArtifactNotFound, ExportedProgramNotFound, RangeNotSatisfiable, *BLOB_ERRORS
        ),
    },
)
@transfers_files
def get_archive(
    request: Request,
    store: StoreDep,
    caller: MayRead,
    digest: Digest,
    form: Annotated[
        Literal["torchscript", "pt2"],
        Query(alias="format", description="`pt2` exists if `options.exportability` was set and the export succeeded."),
    ] = "torchscript",
) -> Response:
    """Returns the whole file, or the part that `Range` asks for.

    The `pt2` never answers inference and is not verified as the archive is: the process that ran the model's code made
    it, and compared it with the eager model on the example alone. `torch.export.load` unpickles it.
    """
    artifact = store.artifacts.get(caller.tenant, digest)
    name = digest.removeprefix("sha256:")[:12]
    if form == "pt2":
        return attachment(request, store.blobs, _exported_program(artifact), filename=f"{name}.pt2")
    return attachment(request, store.blobs, artifact.archive, filename=f"{name}.pt")


def _exported_program(artifact: Artifact) -> BlobRef:
    if artifact.exported is not None:
        return artifact.exported
    if artifact.exportability is None:
        raise ExportedProgramNotFound("the trace request did not ask for an export", asked=False)
    raise ExportedProgramNotFound(
        f"the export failed or could not be kept. {artifact.exportability.note}",
        asked=True,
        readiness=artifact.exportability.readiness,
        remedy="change what the note names, and trace the model again",
    )
