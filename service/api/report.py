"""The report of an artifact, as one HTML page."""

from dataclasses import dataclass
from functools import partial

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from service.api.artifact_sources import named_sources
from service.api.artifacts import Digest
from service.api.context import StoreDep
from service.api.downloads import BLOB_ERRORS
from service.api.http.access import ACCESS_RESPONSES, MayRead
from service.api.http.in_turn import draw
from service.api.problems import problem_responses
from service.domain.errors import ArtifactNotFound, ContentDamaged
from service.storage.database import Store
from tracehouse.artifact.manifest import Artifact
from tracehouse.artifact.signature import SignatureInvalid, read_unchecked
from tracehouse.artifact.statement import Statement
from tracehouse.errors import InvalidRequest
from tracehouse.report import report

router = APIRouter(tags=["Artifacts"], responses=ACCESS_RESPONSES)


@router.get(
    "/artifacts/{digest}/report",
    response_class=HTMLResponse,
    summary="Read an artifact's report",
    responses={
        200: {"description": "An HTML page."},
        **problem_responses(InvalidRequest, ArtifactNotFound, *BLOB_ERRORS),
    },
)
async def get_report(request: Request, store: StoreDep, caller: MayRead, digest: Digest) -> Response:
    """Returns one page that loads nothing else, to be read, printed or attached to a pull request.

    It has the verdict, the contract, the findings on the numbered source, what was compared and by how much it
    differed, the result of torch's own check, and versions.
    """
    page = await draw(request, partial(_read, store, caller.tenant, digest), _write)
    name = digest.removeprefix("sha256:")[:12]
    headers = {
        "Content-Security-Policy": report.POLICY,
        "Content-Disposition": f'inline; filename="trace-check-{name}.html"',
        "Cache-Control": "private, no-cache",
    }
    return HTMLResponse(page, headers=headers)


def _read(store: Store, tenant: str, digest: str) -> "_Content":
    artifact = store.artifacts.get(tenant, digest)
    signed = _signed(store.artifacts.signature(tenant, digest), digest)
    return _Content(artifact, digest, named_sources(artifact, store.blobs), signed)


def _write(content: "_Content") -> bytes:
    return report.page(content.artifact, content.digest, content.sources, content.signed).encode()


@dataclass(frozen=True, slots=True)
class _Content:
    """What a report is made of."""

    artifact: Artifact
    digest: str
    sources: dict[str, str]
    signed: Statement | None


def _signed(signature: str | None, digest: str) -> Statement | None:
    """Return what the service signed. Raises ContentDamaged."""
    try:
        return None if signature is None else read_unchecked(signature)
    except SignatureInvalid as error:
        raise ContentDamaged(f"the stored signature of {digest} cannot be read", digest=digest) from error
