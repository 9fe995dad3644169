"""The tenant of a request, for what does not take a caller."""

from starlette.types import Scope

# Who sends no key, or is not authenticated yet: strangers share one tenant's share.
STRANGERS = ""


def tenant_of(scope: Scope) -> str:
    """Return the tenant for which the request was authenticated."""
    tenant: str = scope["state"].get("tenant", STRANGERS)
    return tenant
