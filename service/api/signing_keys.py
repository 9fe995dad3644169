"""Signing keys: the public keys of the service, which anybody may have."""

from typing import Annotated, Literal

from fastapi import APIRouter, Path
from fastapi.responses import PlainTextResponse
from pydantic import Field

from service.api.context import ContextDep
from service.api.problems import problem_responses
from service.domain.errors import SigningKeyNotFound
from tracehouse.artifact.blob import DIGEST_PATTERN
from tracehouse.errors import InvalidRequest
from tracehouse.frozen import Frozen

router = APIRouter(tags=["Signing keys"])

_PEM = "application/x-pem-file"


class SigningKey(Frozen):
    """A public key."""

    id: str = Field(description="`sha256:` and the SHA-256 of the key in DER form (SubjectPublicKeyInfo).")
    algorithm: Literal["Ed25519"] = "Ed25519"
    public_key: str = Field(description="The key in PEM form, as `tracehouse verify --key` reads it from a file.")
    is_current: bool = Field(description="Whether the service signs with it now.")


class SigningKeyList(Frozen):
    """The key that signs now, if one does, and then those that signed before."""

    signing_keys: list[SigningKey]


@router.get("/signing-keys", summary="List the keys that sign artifacts")
async def list_signing_keys(context: ContextDep) -> SigningKeyList:
    """Earlier keys stay in the list, because what they signed stays signed.

    Who sends you both the archive and the key can sign anything: get the key once, from somebody whom you trust to say
    that it is this service's, and keep it.
    """
    keys = context.signing_keys
    return SigningKeyList(
        signing_keys=[SigningKey(id=one.id, public_key=one.pem, is_current=one is keys.current) for one in keys]
    )


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
