"""Webhooks: addresses that are told when a trace request of the tenant has ended."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from pydantic import Field

from service.api.context import ContextDep, StoreDep
from service.api.http.access import ACCESS_ERRORS, ACCESS_RESPONSES, MayAdmin
from service.api.http.body import BODY_ERRORS, describe_body, read_model
from service.api.http.in_turn import InTurn, run
from service.api.problems import problem_responses
from service.domain.errors import StorageQuotaExceeded, TooManyWebhooks, WebhookNotFound, WebhookUrlRefused
from service.domain.webhook import Webhook
from service.webhooks.target import URL_MAX, Target
from tracehouse.errors import InvalidRequest
from tracehouse.frozen import Frozen

router = APIRouter(tags=["Webhooks"], responses=ACCESS_RESPONSES, route_class=InTurn)


class NewWebhook(Frozen):
    """A webhook to make."""

    url: str = Field(max_length=URL_MAX, description="An address on the public internet that begins with https://.")


class CreatedWebhook(Webhook):
    """A new webhook with its secret."""

    secret: str = Field(description="What its messages are signed with. It is shown only here.")


class WebhookList(Frozen):
    """The tenant's webhooks, the oldest first."""

    webhooks: Sequence[Webhook]


@router.get("/webhooks", summary="List webhooks")
def list_webhooks(store: StoreDep, caller: MayAdmin) -> WebhookList:
    """Lists the tenant's webhooks, without their secrets, and what came of the last try of each.

    An address may hold a secret too, so that only an `admin` key reads them.
    """
    return WebhookList(webhooks=store.webhooks.list(caller.tenant))


@router.post(
    "/webhooks",
    status_code=201,
    summary="Make a webhook",
    responses=problem_responses(*BODY_ERRORS, *ACCESS_ERRORS, WebhookUrlRefused, TooManyWebhooks, StorageQuotaExceeded),
    openapi_extra=describe_body(NewWebhook, example={"url": "https://example.com/tracehouse"}),
)
async def create_webhook(request: Request, context: ContextDep, caller: MayAdmin) -> CreatedWebhook:
    """From now on, each end of a trace request of the tenant is sent to the address, in the form of Standard Webhooks:
    `{"type": "trace.succeeded", "timestamp": …, "data": {"id", "state", "verdict", "path"}}`, or `trace.failed` or
    `trace.cancelled`. What is not answered with 2xx within 15 seconds is tried again for three days.
    """
    wanted = await read_model(request, NewWebhook)
    Target.parse(wanted.url).check_literal(context.webhook_networks)
    create, room = context.store.webhooks.create, context.room(caller.tenant)
    webhook, secret = await run(request, create, caller.tenant, wanted.url, by=caller.actor, room=room)
    return CreatedWebhook(**dict(webhook), secret=secret)


@router.delete(
    "/webhooks/{id}",
    status_code=204,
    response_class=Response,
    summary="Delete a webhook",
    responses=problem_responses(WebhookNotFound, InvalidRequest),
)
def delete_webhook(
    store: StoreDep,
    caller: MayAdmin,
    webhook_id: Annotated[
        str, Path(alias="id", pattern="^[0-9a-f]{32}$", description="`webhooks[0].id` of `GET /webhooks`.")
    ],
) -> None:
    """Messages that wait for it are not sent any more."""
    store.webhooks.delete(caller.tenant, webhook_id, by=caller.actor)
