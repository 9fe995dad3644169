"""The audit log: who changed what, and when."""

from datetime import datetime
from typing import Literal

from pydantic import Field, JsonValue

from tracehouse.frozen import Frozen

Via = Literal["api", "command", "service"]
AuditAction = Literal[
    "trace.submit",
    "trace.cancel",
    "trace.delete",
    "model.promote",
    "model.move_back",
    "model.change",
    "model.delete",
    "version.delete",
    "alias.put",
    "alias.move_back",
    "alias.delete",
    "key.create",
    "key.revoke",
    "quotas.put",
    "webhook.create",
    "webhook.delete",
]


class Actor(Frozen):
    """Who changes something."""

    via: Via
    key: str | None = None


SERVICE = Actor(via="service")
COMMAND = Actor(via="command")


class AuditEntry(Frozen):
    """One change."""

    id: int = Field(description="A later entry has a larger `id`.")
    at: datetime
    tenant: str
    via: Via = Field(
        description="`api`: a request. `command`: the `tracehouse` command beside the service. `service`: the service "
        "itself."
    )
    key: str | None = Field(
        description="The visible part of the API key that asked for it; null if keys are off, or no request did."
    )
    action: AuditAction
    subject: str = Field(
        description="What was changed: a trace request, a model, a version, an alias, a key, a tenant or a webhook."
    )
    details: dict[str, JsonValue] = Field(description="What it was changed to.")
