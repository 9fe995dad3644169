"""A tenant: what it has stored and queued, and how much it may."""

from pydantic import Field

from service.domain.quotas import Quotas
from tracehouse.frozen import Frozen


class TenantUsage(Frozen):
    """What a tenant has. `own_quotas` take the place of the service's, where they are not null."""

    name: str
    queued: int = Field(description="Its waiting trace requests.")
    stored_bytes: int = Field(description="What it has stored, as it counts against its quota.")
    own_quotas: Quotas
