"""The audit log: who changed what in the caller's tenant."""

from fastapi import APIRouter, Request, Response
from pydantic import Field

from service.api.context import StoreDep
from service.api.http.access import ACCESS_RESPONSES, MayAdmin, OfTenant
from service.api.http.in_turn import InTurn
from service.api.pagination import Cursor, Limit, link_next
from service.api.problems import problem_responses
from service.domain.audit import AuditEntry
from service.domain.errors import InvalidCursor
from tracehouse.errors import InvalidRequest
from tracehouse.frozen import Frozen

router = APIRouter(tags=["Administration"], responses=ACCESS_RESPONSES, route_class=InTurn)


class AuditEntryList(Frozen):
    """Entries of the audit log, newest first."""

    entries: list[AuditEntry]
    next_cursor: str | None = Field(description="The `cursor` of the next page; null on the last page.")


@router.get("/audit", summary="Read the audit log", responses=problem_responses(InvalidRequest, InvalidCursor))
def list_audit_entries(
    request: Request,
    response: Response,
    store: StoreDep,
    caller: MayAdmin,
    limit: Limit = 20,
    cursor: Cursor = None,
    tenant: OfTenant = None,
) -> AuditEntryList:
    """Lists who submitted, cancelled and deleted trace requests, promoted and deleted versions, moved aliases, changed
    how models are served, and made and revoked keys, and who set quotas, newest first, a page at a time.

    An entry names a key by its visible part. At least the newest 100,000 entries of a tenant are kept.
    """
    page = store.audit_log.list(caller.choose_tenant(tenant), limit, cursor)
    link_next(request, response, page.next_cursor)
    return AuditEntryList(entries=[*page.items], next_cursor=page.next_cursor)
