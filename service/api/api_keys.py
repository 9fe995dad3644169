"""API keys: who may use the service as the caller's tenant. An operator makes and revokes those of all tenants."""

from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response
from pydantic import AwareDatetime, Field

from service.api.context import ContextDep, StoreDep
from service.api.http.access import ACCESS_ERRORS, ACCESS_RESPONSES, MayAdmin, OfTenant
from service.api.http.body import BODY_ERRORS, describe_body, read_model
from service.api.http.in_turn import InTurn, run
from service.api.pagination import Cursor, Limit, link_next
from service.api.problems import problem_responses
from service.domain.api_key import REQUESTS_PER_MINUTE_MAX, UPLOAD_MAX_BYTES_MAX, KeyName, Scope, TenantName
from service.domain.errors import ApiKeyNotFound, InvalidCursor, StorageQuotaExceeded, TooManyKeys
from service.domain.key_reply import CreatedKey, KeyReply
from tracehouse.errors import InvalidRequest
from tracehouse.frozen import Frozen

router = APIRouter(tags=["Administration"], responses=ACCESS_RESPONSES, route_class=InTurn)

# Chosen: a key for each of a large team's people and machines.
KEYS_MAX = 1000


class NewKey(Frozen):
    """A key to make."""

    name: KeyName = Field(description="What the key is for, or whose it is.")
    tenant: TenantName | None = Field(
        None, description="Another tenant, for keys that may `operator` too. Default: the caller's."
    )
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=len(Scope))] = Field(
        [Scope.TRACE, Scope.READ, Scope.INFER], description="What it may do, which the caller's key may do too."
    )
    expires_at: AwareDatetime | None = Field(
        None,
        lt=datetime(9999, 1, 1, tzinfo=UTC),  # a later time may have none in UTC
        description="When it ends, not after the caller's key. Default: with that key, or never.",
    )
    requests_per_minute: int | None = Field(
        None,
        gt=0,
        le=REQUESTS_PER_MINUTE_MAX,
        strict=True,
        description="At most what the caller's key has, which is the default; null is the service's own limit, and "
        "only an operator gives more than that.",
    )
    upload_max_bytes: int | None = Field(
        None,
        gt=0,
        le=UPLOAD_MAX_BYTES_MAX,
        strict=True,
        description="At most what the caller's key has, which is the default; null is the service's own limit.",
    )


class KeyList(Frozen):
    """Keys, oldest first, also expired and revoked ones."""

    keys: list[KeyReply]
    next_cursor: str | None = Field(description="The `cursor` of the next page; null on the last page.")


@router.get("/keys", summary="List API keys", responses=problem_responses(InvalidRequest, InvalidCursor))
def list_keys(
    request: Request,
    response: Response,
    store: StoreDep,
    caller: MayAdmin,
    limit: Limit = 20,
    cursor: Cursor = None,
    tenant: OfTenant = None,
) -> KeyList:
    """Lists the tenant's keys, without their secrets, a page at a time."""
    page = store.api_keys.list_of(caller.choose_tenant(tenant), limit, cursor)
    link_next(request, response, page.next_cursor)
    return KeyList(keys=[KeyReply.of(each) for each in page.items], next_cursor=page.next_cursor)


@router.post(
    "/keys",
    status_code=201,
    summary="Make an API key",
    responses=problem_responses(*BODY_ERRORS, *ACCESS_ERRORS, TooManyKeys, StorageQuotaExceeded),
    openapi_extra=describe_body(NewKey, example={"name": "training", "scopes": ["trace", "read"]}),
)
async def create_key(request: Request, context: ContextDep, caller: MayAdmin) -> CreatedKey:
    """The reply has the key, which is shown only now: the service keeps a digest of it.

    Nobody makes a key that may more than their own: it has scopes that the caller's key allows, ends no later, and has
    no larger limits. Only an operator makes keys of other tenants.
    """
    wanted = await read_model(request, NewKey)
    tenant = caller.choose_tenant(wanted.tenant)
    for scope in wanted.scopes:
        caller.require(scope)
    own = caller.key
    given = {
        name: _at_most(name, getattr(wanted, name), None if own is None else getattr(own, name))
        for name in ("expires_at", "requests_per_minute", "upload_max_bytes")
    }
    if own is not None and own.requests_per_minute is None and not own.allows(Scope.OPERATOR):
        # Of two limits on uploads the smaller one counts, but this one would count instead of the service's.
        _at_most("requests_per_minute", wanted.requests_per_minute, context.limits.key_requests_per_minute)
    if wanted.expires_at is not None and wanted.expires_at <= datetime.now(UTC):
        raise _misfit("expires_at", "this time is over")
    # An operator gives a tenant keys whatever its quota: with one it deletes what takes the room.
    is_operator = own is not None and own.allows(Scope.OPERATOR)
    room = None if is_operator else context.room(tenant)
    create = partial(context.store.api_keys.create, keys_max=KEYS_MAX, by=caller.actor, room=room)
    key, text = await run(request, create, wanted.name, tenant, wanted.scopes, **given)
    return CreatedKey.of(key, key=text)


@router.delete(
    "/keys/{prefix}",
    status_code=204,
    response_class=Response,
    summary="Revoke an API key",
    responses=problem_responses(ApiKeyNotFound, InvalidRequest),
)
def revoke_key(
    store: StoreDep,
    caller: MayAdmin,
    prefix: Annotated[
        str,
        Path(
            pattern="^th_[a-z0-9]{8}$",
            description="The key's visible part: `keys[0].prefix` of `GET /keys`.",
            openapi_examples={"a key": {"value": "th_ab12cd34"}},
        ),
    ],
    tenant: OfTenant = None,
) -> None:
    """From now on it opens nothing; in other processes of the service, within a second. It stays in the list.

    A key with a scope that the caller's key lacks, such as an operator's, is not revoked.
    """
    key = store.api_keys.get(caller.choose_tenant(tenant), prefix)
    for scope in sorted(key.scopes):
        caller.require(scope)
    store.api_keys.revoke(prefix, by=caller.actor)


def _at_most(name: str, wanted: Any, own: Any) -> Any:
    """Return what is wanted, or else what the caller's key has. Raises InvalidRequest for more than that."""
    if wanted is None or own is None:
        return own if wanted is None else wanted
    if wanted > own:
        raise _misfit(name, f"the key that asks has {own}, and makes none with more")
    return wanted


def _misfit(name: str, detail: str) -> InvalidRequest:
    return InvalidRequest(f"/{name}: {detail}", errors=[{"pointer": f"/{name}", "detail": detail}])
