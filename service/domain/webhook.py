"""A webhook: an address that is told when a trace request of its tenant has ended. Form: Standard Webhooks 1.0."""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from pydantic import Field

from tracehouse.frozen import Frozen

_SECRET_PREFIX = "whsec_"
_SECRET_BYTES = 32


class Webhook(Frozen):
    """A webhook without its secret."""

    id: str
    url: str
    created_at: datetime
    waiting: int = Field(description="Messages that wait to be delivered, or to be tried again.")
    last_tried_at: datetime | None = Field(description="When a message was tried last; null if none was.")
    last_result: str | None = Field(
        description="What came of the last try: the status of the reply, or why there was none."
    )


@dataclass(frozen=True, slots=True)
class Message:
    """A message that is due. `tries` counts those that have failed."""

    id: str
    webhook: str
    tenant: str
    url: str
    body: str
    tries: int
    secret: str = field(repr=False)
    trace_context: Mapping[str, str] | None = None  # of the trace of OpenTelemetry that the request belongs to


def new_secret() -> str:
    return _SECRET_PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def sign(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """Return the header `webhook-signature`."""
    key = base64.b64decode(secret.removeprefix(_SECRET_PREFIX))
    signed = b".".join((message_id.encode(), str(timestamp).encode(), body))
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
