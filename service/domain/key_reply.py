"""Key replies: what a caller sees of an API key, over HTTP and from the command line."""

from datetime import datetime
from typing import Any, Self

from pydantic import Field

from service.domain.api_key import ApiKey, Scope
from tracehouse.frozen import Frozen


class KeyReply(Frozen):
    """A key without its secret."""

    prefix: str = Field(description="Its visible part.")
    name: str
    tenant: str
    scopes: list[Scope]
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None = Field(description="To the minute.")
    revoked_at: datetime | None
    requests_per_minute: int | None = Field(description="Null is the service's own limit.")
    upload_max_bytes: int | None = Field(description="Null is the service's own limit.")

    @classmethod
    def of(cls, api_key: ApiKey, **more: Any) -> Self:
        """Return what a caller sees of the key, with the fields of a subclass."""
        fields = {**dict(api_key), "scopes": api_key.scopes_in_order}
        return cls(**fields, **more)


class CreatedKey(KeyReply):
    """A new key, whole."""

    key: str = Field(description="What its holder sends, as `Authorization: Bearer KEY`. It is shown only here.")
