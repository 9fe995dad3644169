"""Signatures of artifacts: what the service signed about an archive when it had checked it."""

import hashlib

from fastapi import APIRouter, Request, Response

from service.api.artifacts import Digest
from service.api.context import ContextDep
from service.api.downloads import REVALIDATED, client_has
from service.api.http.access import ACCESS_RESPONSES, MayRead
from service.api.http.in_turn import InTurn
from service.api.problems import InternalError, problem_responses
from service.domain.errors import ArtifactNotFound, ArtifactWithdrawn, ContentDamaged, SignatureNotFound
from tracehouse.artifact.signature import MEDIA_TYPE
from tracehouse.errors import InvalidRequest

router = APIRouter(tags=["Artifacts"], responses=ACCESS_RESPONSES, route_class=InTurn)


@router.get(
    "/artifacts/{digest}/signature",
    response_class=Response,
    summary="Download the archive's signature",
    responses={
        200: {
            "description": "A DSSE envelope with an in-toto statement, for `tracehouse verify --key`.",
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Envelope"}}},
        },
        304: {"description": "The signature is the one in `If-None-Match`."},
        **problem_responses(
            InvalidRequest, ArtifactNotFound, SignatureNotFound, ArtifactWithdrawn, InternalError, ContentDamaged
        ),
    },
)
def get_signature(request: Request, context: ContextDep, caller: MayRead, digest: Digest) -> Response:
    """Returns what the service signed when it had made the artifact: the archive's digest, the verdict, the contract's
    digest, the check's version, the key's id and the time.

    It says that the service with this key made this archive and came to this verdict then. It says nothing beyond that:
    not whether the model is any good, nor who submitted it. What was made without a signature is not signed afterwards,
    for the service cannot know what became of its records meanwhile. The signature of an artifact that a later check
    refuted is not given out any more.
    """
    artifacts = context.store.artifacts
    artifacts.get(caller.tenant, digest)
    if later := artifacts.withdrawals(caller.tenant, [digest]).get(digest):
        raise ArtifactWithdrawn(
            f"a later check, trace request {later}, found a wrong answer that this artifact promises to be right",
            digest=digest,
            trace_request=later,
        )
    signature = artifacts.signature(caller.tenant, digest)
    if signature is None:
        raise _not_signed(digest, can_sign=context.signing_keys.current is not None)
    name = digest.removeprefix("sha256:")[:12]
    headers = {
        "ETag": f'"{hashlib.sha256(signature.encode()).hexdigest()}"',
        **REVALIDATED,
        "Content-Disposition": f'attachment; filename="{name}.pt.dsse.json"',
    }
    if client_has(request, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    return Response(signature, headers=headers, media_type=MEDIA_TYPE)


def _not_signed(digest: str, *, can_sign: bool) -> SignatureNotFound:
    if can_sign:
        return SignatureNotFound("the artifact was made when this service signed nothing", digest=digest)
    return SignatureNotFound(
        "this service signs nothing: it runs without a sandbox, where submitted code could read the key",
        digest=digest,
        remedy="trace the model with a service that runs in a sandbox",
    )
