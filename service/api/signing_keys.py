"""Signing keys: the public keys of the service, which anybody may have."""

from typing import Annotated

from fastapi import APIRouter, Path
from fastapi.responses import PlainTextResponse

from service.api.context import ContextDep
from service.api.problems import problem_responses
from service.domain.errors import SigningKeyNotFound
from service.signing.signing_key_list import SigningKeyList
from tracehouse.artifact.blob import DIGEST_PATTERN
from tracehouse.errors import InvalidRequest

router = APIRouter(tags=["Signing keys"])

_PEM = "application/x-pem-file"


@router.get("/signing-keys", summary="List the keys that sign artifacts")
async def list_signing_keys(context: ContextDep) -> SigningKeyList:
    """Earlier keys stay in the list, because what they signed stays signed.

    Who sends you both the archive and the key can sign anything: get the key once, from somebody whom you trust to say
    that it is this service's, and keep it.
    """
    return SigningKeyList.of(context.signing_keys)


@router.get(
    "/signing-keys/{id}",
    response_class=PlainTextResponse,
    summary="Download a public key",
    responses={
        200: {"description": "The key in PEM form.", "content": {_PEM: {"schema": {"type": "string"}}}},
        **problem_responses(SigningKeyNotFound, InvalidRequest),
    },
)
async def get_signing_key(
    context: ContextDep,
    key_id: Annotated[
        str,
        Path(alias="id", pattern=DIGEST_PATTERN, description="`signing_keys[0].id` of `GET /signing-keys`."),
    ],
) -> PlainTextResponse:
    """Returns the file for `tracehouse verify --key`."""
    for key in context.signing_keys:
        if key.id == key_id:
            return PlainTextResponse(key.pem, media_type=_PEM)
    raise SigningKeyNotFound("there is no signing key with this id", id=key_id)
