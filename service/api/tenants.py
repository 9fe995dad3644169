"""Tenants: what each has, and how much it may have. An operator sees and sets that of all; everybody sees their own."""

from typing import Annotated, Self

from fastapi import APIRouter, Path, Request, Response
from pydantic import Field

from service.api.context import AppContext, ContextDep, StoreDep
from service.api.http.access import ACCESS_RESPONSES, MayOperate, MayRead
from service.api.http.body import BODY_ERRORS, describe_body, read_model
from service.api.http.in_turn import InTurn, run
from service.api.pagination import Cursor, Limit, link_next
from service.api.problems import problem_responses
from service.domain.api_key import TenantName
from service.domain.errors import InvalidCursor, TenantNotFound
from service.domain.quotas import Quotas
from service.domain.tenant import TenantUsage
from tracehouse.errors import InvalidRequest
from tracehouse.frozen import Frozen

router = APIRouter(tags=["Administration"], responses=ACCESS_RESPONSES, route_class=InTurn)

Name = Annotated[
    TenantName,
    Path(alias="tenant", description="The tenant.", openapi_examples={"default": {"value": "default"}}),
]


class TenantReply(TenantUsage):
    """A tenant, what it has, and how much it may have."""

    quotas: Quotas = Field(description="What holds: its own, or else the service's; null is no limit.")

    @classmethod
    def of(cls, usage: TenantUsage, context: AppContext) -> Self:
        return cls(**dict(usage), quotas=usage.own_quotas.or_else(context.quotas))


class TenantList(Frozen):
    """Tenants in the order of their names."""

    tenants: list[TenantReply]
    next_cursor: str | None = Field(description="The `cursor` of the next page; null on the last page.")


class OwnQuotas(Frozen):
    """A tenant's own quotas; null stands for the service's."""

    queued_max: int | None = Field(ge=0, lt=2**31, strict=True, description="As TENANT_QUEUED_MAX.")
    stored_max_bytes: int | None = Field(ge=0, lt=2**62, strict=True, description="As TENANT_STORED_MAX_BYTES.")


@router.get("/quota", summary="Read what your tenant has, and may have")
def get_own_quota(context: ContextDep, store: StoreDep, caller: MayRead) -> TenantReply:
    """Returns what the caller's tenant has stored and queued, and its quotas."""
    return TenantReply.of(store.tenants.usage(caller.tenant), context)


@router.get("/tenants", summary="List tenants", responses=problem_responses(InvalidRequest, InvalidCursor))
def list_tenants(
    request: Request,
    response: Response,
    context: ContextDep,
    store: StoreDep,
    caller: MayOperate,  # noqa: ARG001 - whoever may, sees all
    limit: Limit = 20,
    cursor: Cursor = None,
) -> TenantList:
    """Lists all tenants that have keys, trace requests or quotas of their own, a page at a time."""
    page = store.tenants.list(limit, cursor)
    link_next(request, response, page.next_cursor)
    return TenantList(tenants=[TenantReply.of(one, context) for one in page.items], next_cursor=page.next_cursor)


@router.get("/tenants/{tenant}", summary="Read a tenant", responses=problem_responses(InvalidRequest, TenantNotFound))
def get_tenant(context: ContextDep, store: StoreDep, caller: MayOperate, name: Name) -> TenantReply:  # noqa: ARG001
    """Returns what it has stored and queued, and its quotas."""
    return TenantReply.of(store.tenants.get(name), context)


@router.put(
    "/tenants/{tenant}/quotas",
    summary="Set a tenant's quotas",
    responses=problem_responses(*BODY_ERRORS),
    openapi_extra=describe_body(OwnQuotas, example={"queued_max": None, "stored_max_bytes": 10**9}),
)
async def put_quotas(
    request: Request, context: ContextDep, store: StoreDep, caller: MayOperate, name: Name
) -> TenantReply:
    """Sets both: null gives the tenant the service's own limit. They hold from its next trace request and file on, and
    nothing that it has is removed. A tenant that nobody knows yet may be given quotas before it has a key.
    """
    wanted = await read_model(request, OwnQuotas)
    quotas = Quotas(**wanted.model_dump())
    usage = await run(request, store.tenants.set_quotas, name, quotas, by=caller.actor)
    return TenantReply.of(usage, context)
