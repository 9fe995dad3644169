"""Webhooks of each tenant, and which of their messages are due. Another tenant's are treated as not existing."""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from uuid import uuid4

import orjson
from sqlalchemy import Connection, delete, func, insert, select, update

from service.domain.audit import SERVICE, Actor
from service.domain.errors import TooManyWebhooks, WebhookNotFound
from service.domain.webhook import Message, Webhook, new_secret
from service.storage import tables
from service.storage.audit import record
from service.storage.quotas import Room
from service.storage.transactions import Transactions

# Chosen: each end of a request is told to all of them.
WEBHOOKS_MAX = 5

_webhook = tables.webhooks.c
_message = tables.webhook_messages.c


class Webhooks:
    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def create(self, tenant: str, url: str, *, by: Actor = SERVICE, room: Room | None = None) -> tuple[Webhook, str]:
        """Make a webhook; return it with its secret, which is shown only now.

        Raises TooManyWebhooks and StorageQuotaExceeded.
        """
        webhook_id, secret = uuid4().hex, new_secret()
        row = {"id": webhook_id, "tenant": tenant, "url": url, "created_at": datetime.now(UTC)}
        with self._transactions.write() as connection:
            if (connection.scalar(select(func.count()).where(_webhook.tenant == tenant)) or 0) >= WEBHOOKS_MAX:
                raise TooManyWebhooks(f"a tenant may have {WEBHOOKS_MAX} webhooks", limit=WEBHOOKS_MAX)
            connection.execute(insert(tables.webhooks).values(**row, secret=secret))
            record(connection, by, tenant, "webhook.create", webhook_id, room=room)
            [webhook] = _find(connection, tenant, webhook_id)
        return webhook, secret

    def list(self, tenant: str) -> Sequence[Webhook]:
        """Return the tenant's webhooks, the oldest first."""
        with self._transactions.read() as connection:
            return _find(connection, tenant)

    def delete(self, tenant: str, webhook_id: str, *, by: Actor = SERVICE) -> None:
        """Delete a webhook with the messages that wait for it. Raises WebhookNotFound."""
        with self._transactions.write() as connection:
            # Locked, so that what ends now waits until it is gone, or has its message deleted, too.
            wanted = select(_webhook.id).where(_webhook.tenant == tenant, _webhook.id == webhook_id)
            if connection.scalar(wanted.with_for_update()) is None:
                raise WebhookNotFound("there is no webhook with this id", id=webhook_id)
            connection.execute(delete(tables.webhook_messages).where(_message.webhook == webhook_id))
            connection.execute(delete(tables.webhooks).where(_webhook.id == webhook_id))
            record(connection, by, tenant, "webhook.delete", webhook_id)

    def due(self, besides: Collection[str], resting: Collection[str] = ()) -> Sequence[Message]:
        """Return the message of each tenant that is due for the longest time, but for some tenants and webhooks."""
        now = datetime.now(UTC)
        with self._transactions.read() as connection:
            tenants = connection.scalars(
                select(_message.tenant).where(_message.due_at <= now).group_by(_message.tenant)
            ).all()
            found = [_first(connection, tenant, now, resting) for tenant in tenants if tenant not in besides]
        return [message for message in found if message is not None]

    def take(self, message: Message, until: datetime) -> bool:
        """Keep the message from other processes until then; False if one of them has taken or ended it.

        With SQLite there are no others.
        """
        if not self._transactions.is_shared:
            return True
        with self._transactions.write() as connection:
            due = update(tables.webhook_messages).where(_message.id == message.id, _message.due_at <= datetime.now(UTC))
            return connection.execute(due.values(due_at=until)).rowcount == 1

    def end(self, message: Message, result: str, *, try_at: datetime | None) -> None:
        """Note what came of a try. The message is forgotten, or tried once more at `try_at`."""
        noted = {"last_tried_at": datetime.now(UTC), "last_result": result}
        with self._transactions.write() as connection:
            # First the webhook, as where one is deleted: otherwise each may wait for the other.
            connection.execute(update(tables.webhooks).where(_webhook.id == message.webhook).values(**noted))
            if try_at is None:
                connection.execute(delete(tables.webhook_messages).where(_message.id == message.id))
            else:
                later = update(tables.webhook_messages).where(_message.id == message.id)
                connection.execute(later.values(tries=message.tries + 1, due_at=try_at))


def _find(connection: Connection, tenant: str, webhook_id: str | None = None) -> Sequence[Webhook]:
    waiting = select(func.count()).where(_message.webhook == _webhook.id).scalar_subquery()
    columns = (_webhook[name] for name in ("id", "url", "created_at", "last_tried_at", "last_result"))
    query = select(*columns, waiting.label("waiting")).where(_webhook.tenant == tenant)
    if webhook_id is not None:
        query = query.where(_webhook.id == webhook_id)
    rows = connection.execute(query.order_by(_webhook.created_at, _webhook.id)).mappings()
    return [Webhook(**row) for row in rows]


def _first(connection: Connection, tenant: str, now: datetime, resting: Collection[str]) -> Message | None:
    columns = (_message[name] for name in ("id", "webhook", "tenant", "body", "tries"))
    query = (
        select(*columns, _webhook.url, _webhook.secret)
        .join(tables.webhooks, _webhook.id == _message.webhook)
        .where(_message.tenant == tenant, _message.due_at <= now, _message.webhook.not_in(resting))
        .order_by(_message.due_at)
        .limit(1)
    )
    row = connection.execute(query).mappings().one_or_none()
    if row is None:
        return None
    its_request = tables.trace_requests.c.id == orjson.loads(row["body"])["data"]["id"]
    context = connection.scalar(select(tables.trace_requests.c.trace_context).where(its_request))
    return Message(**row, trace_context=context)
