"""Webhook messages: written in the transaction in which a trace request ends, so that no end is told without them."""

from datetime import UTC, datetime
from uuid import uuid4

import orjson
from sqlalchemy import Connection, func, insert, select

from service.storage import tables
from service.storage.transactions import AnyRow

# Beyond it, what a webhook is not told is lost: it was not reached for days, or a tenant ends requests in a loop.
WAITING_MAX = 1000

_webhook = tables.webhooks.c
_message = tables.webhook_messages.c


def queue_messages(connection: Connection, row: AnyRow) -> None:
    """Let the end of a trace request wait to be told to each webhook of its tenant."""
    # Locked, so that none of them is deleted before its message is there.
    wanted = select(_webhook.id).where(_webhook.tenant == row.tenant).with_for_update(read=True, key_share=True)
    webhooks = connection.scalars(wanted).all()
    if not webhooks:
        return
    now = datetime.now(UTC)
    data = {"id": row.id, "state": row.state, "verdict": row.verdict, "path": f"/trace/{row.id}"}
    body = orjson.dumps({"type": f"trace.{row.state}", "timestamp": now.isoformat(), "data": data}).decode()
    for webhook in webhooks:
        waiting = connection.scalar(select(func.count()).where(_message.webhook == webhook)) or 0
        if waiting < WAITING_MAX:
            values = {"id": f"msg_{uuid4().hex}", "webhook": webhook, "tenant": row.tenant, "body": body}
            connection.execute(insert(tables.webhook_messages).values(**values, tries=0, due_at=now))
