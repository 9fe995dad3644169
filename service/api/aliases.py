"""Aliases: names for versions of a model, such as `prod`, that move from one to another."""

import re
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Request, Response
from pydantic import Field

from service.api.context import ContextDep, StoreDep
from service.api.http.access import ACCESS_ERRORS, ACCESS_RESPONSES, MayAdmin, MayRead
from service.api.http.body import BODY_ERRORS, describe_body, read_model
from service.api.http.in_turn import InTurn, run
from service.api.model_reply import AliasReply
from service.api.models import Name, check_conditions
from service.api.problems import problem_responses
from service.domain.errors import (
    AliasMoved,
    AliasNotFound,
    IfMatchRequired,
    MalformedHeader,
    ModelNotFound,
    NothingIsChecked,
    NothingToMoveBackTo,
    StorageQuotaExceeded,
    TooManyAliases,
    VersionNotFound,
)
from tracehouse.errors import InvalidRequest
from tracehouse.frozen import Frozen
from tracehouse.spec.model_name import ModelName

router = APIRouter(tags=["Models"], responses=ACCESS_RESPONSES, route_class=InTurn)

AliasName = Annotated[
    ModelName, Path(alias="alias", description="The alias.", openapi_examples={"prod": {"value": "prod"}})
]

_ETAG = re.compile(r'(?:W/)?"[^"]*"|\*')


class AliasTarget(Frozen):
    """The version that an alias is to point at, and when it is to be moved back."""

    version: int = Field(ge=1, lt=10**9, strict=True)
    move_back_after: int | None = Field(
        None,
        ge=1,
        lt=10**9,
        strict=True,
        description="Move the alias back to the version that it pointed at before, once so many answers of the new one "
        "are not those of the model in Python. It needs a `LIVE_CHECK_SHARE` above 0. Default: it stays.",
    )


_WITH_ETAG: dict[int | str, dict[str, Any]] = {
    200: {
        "headers": {
            "ETag": {"description": "The value for `If-Match` in a move of the alias.", "schema": {"type": "string"}}
        }
    }
}


@router.get(
    "/models/{name}/aliases/{alias}",
    summary="Read an alias",
    responses={**_WITH_ETAG, **problem_responses(InvalidRequest, ModelNotFound, AliasNotFound)},
)
def get_alias(response: Response, store: StoreDep, caller: MayRead, name: Name, alias: AliasName) -> AliasReply:
    """Returns the version that it points at, and the ETag that a move needs."""
    aliases = store.models.get(caller.tenant, name).aliases
    named = next((each for each in aliases if each.alias == alias), None)
    if named is None:
        raise AliasNotFound(f"there is no alias {alias!r}", name=name, alias=alias)
    response.headers["ETag"] = named.etag
    return AliasReply.of(named)


@router.put(
    "/models/{name}/aliases/{alias}",
    summary="Set an alias",
    responses={
        **_WITH_ETAG,
        **problem_responses(
            *BODY_ERRORS,
            *ACCESS_ERRORS,
            MalformedHeader,
            ModelNotFound,
            VersionNotFound,
            NothingIsChecked,
            NothingToMoveBackTo,
            AliasMoved,
            IfMatchRequired,
            TooManyAliases,
            StorageQuotaExceeded,
        ),
    },
    openapi_extra=describe_body(AliasTarget, example={"version": 1}),
)
async def put_alias(
    request: Request,
    response: Response,
    context: ContextDep,
    caller: MayAdmin,
    name: Name,
    alias: AliasName,
    if_match: Annotated[
        str | None,
        Header(alias="If-Match", description="The alias's current ETag; required if the alias exists."),
    ] = None,
    if_none_match: Annotated[
        str | None, Header(alias="If-None-Match", description="`*`: only if the alias does not exist yet.")
    ] = None,
) -> AliasReply:
    """Makes a new alias, or moves one that exists if `If-Match` has its current ETag.

    With `move_back_after`, the live check moves it back when it finds the new version wrong so often.
    """
    target = await read_model(request, AliasTarget)
    expected_etag = _expected_etag(if_match, if_none_match)
    if target.move_back_after is not None and context.inference.live_checker is None:
        raise NothingIsChecked("LIVE_CHECK_SHARE is 0", name=name, alias=alias)
    try:
        put = await run(
            request,
            context.store.models.put_alias,
            caller.tenant,
            name,
            alias,
            target.version,
            expected_etag,
            move_back_after=target.move_back_after,
            by=caller.actor,
            room=context.room(caller.tenant),
        )
    except IfMatchRequired as error:
        if if_none_match is None:
            raise
        raise AliasMoved("the alias exists already", **error.facts) from error
    response.headers["ETag"] = put.etag
    return AliasReply.of(put)


@router.delete(
    "/models/{name}/aliases/{alias}",
    status_code=204,
    summary="Delete an alias",
    responses=problem_responses(InvalidRequest, ModelNotFound, AliasNotFound),
)
def delete_alias(store: StoreDep, caller: MayAdmin, name: Name, alias: AliasName) -> None:
    """Deletes the alias; the version that it points at remains."""
    store.models.delete_alias(caller.tenant, name, alias, by=caller.actor)


def _expected_etag(if_match: str | None, if_none_match: str | None) -> str | None:
    check_conditions(if_match, if_none_match)
    if if_match is not None and not _ETAG.fullmatch(if_match.strip()):
        raise MalformedHeader("If-Match takes one ETag, in its quotes", header="If-Match")
    return if_match.strip() if if_match is not None else None
