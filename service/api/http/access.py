"""Access: who asks, for which tenant, and with which scopes. A route's `caller` parameter says what it needs."""

import asyncio
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Query, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer, SecurityScopes

from service.api.context import AppContext, ContextDep
from service.api.http.admission import identify
from service.api.http.bearer import authenticate
from service.api.http.local import CrossSiteRequest, ForeignHost
from service.api.problems import ConnectionQuotaExceeded, problem_responses
from service.api.request_rate import Allowance
from service.domain.api_key import DEFAULT_TENANT, ApiKey, Scope, TenantName
from service.domain.audit import Actor
from service.domain.errors import (
    ApiKeyExpired,
    ApiKeyInvalid,
    ApiKeyMissing,
    RateLimited,
    ScopeMissing,
)

# Any route with a caller may answer these. A route with further errors of these statuses lists all of them itself.
ACCESS_ERRORS = (
    ApiKeyMissing,
    ApiKeyInvalid,
    ApiKeyExpired,
    ScopeMissing,
    ForeignHost,
    CrossSiteRequest,
    RateLimited,
    ConnectionQuotaExceeded,
)
ACCESS_RESPONSES = problem_responses(*ACCESS_ERRORS)

# A request that came too early is refused after so long. A client that asks again at once, whatever `Retry-After` says,
# would have a refusal in a millisecond, and the next: they cost others more than its answers. Chosen.
REFUSED_AFTER_S = 0.25

# The state of a request that was counted before it came here has its allowance under this name.
COUNTED = "allowance"

_BEARER = HTTPBearer(
    scheme_name="ApiKey",
    bearerFormat="th_…",
    description="A key that `tracehouse keys create` or `POST /keys` made. Not needed while the service runs with keys "
    "off.",
    auto_error=False,  # we reply with a problem document instead
)


@dataclass(frozen=True, slots=True)
class Caller:
    """The tenant of the request, and its key; None while keys are off."""

    tenant: str
    key: ApiKey | None = None

    def require(self, scope: Scope) -> None:
        """Raise ScopeMissing if the key lacks the scope."""
        if self.key is not None and not self.key.allows(scope):
            has = sorted(self.key.scopes)
            raise ScopeMissing(f"this request needs the scope {scope}", scope=scope.value, scopes=has)

    def choose_tenant(self, wanted: str | None) -> str:
        """Return the wanted tenant, or the caller's own. Raises ScopeMissing for another one without `operator`."""
        if wanted is None or wanted == self.tenant:
            return self.tenant
        self.require(Scope.OPERATOR)
        return wanted

    @property
    def actor(self) -> Actor:
        """Who the audit log names."""
        return Actor(via="api", key=None if self.key is None else self.key.prefix)

    def upload_max_bytes(self, service_max_bytes: int) -> int:
        """Return the smaller of the key's own limit and the service's."""
        if self.key is None or self.key.upload_max_bytes is None:
            return service_max_bytes
        return min(self.key.upload_max_bytes, service_max_bytes)


async def _caller(
    request: Request,
    context: ContextDep,
    needed: SecurityScopes,
    _: Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)],  # for the OpenAPI document
) -> Caller:
    """Authenticate the caller before the route runs, and so before any of the body is read."""
    # No cache may keep a reply, which belongs to one tenant.
    request.state.reply_headers["Cache-Control"] = "no-store"
    if not context.keys_required:
        identify(request, context, DEFAULT_TENANT)
        request.state.tenant = DEFAULT_TENANT
        return Caller(DEFAULT_TENANT)
    key = await authenticate(request, context)
    request.state.tenant = key.tenant
    request.state.logged_caller.update(key=key.prefix, tenant=key.tenant)
    allowance = _count(request, context, key)
    identify(request, context, key.tenant)
    if allowance.retry_after_s is not None:
        await asyncio.sleep(REFUSED_AFTER_S)
    check_allowance(allowance)
    caller = Caller(key.tenant, key)
    for scope in needed.scopes:
        caller.require(Scope(scope))
    return caller


def _count(request: Request, context: AppContext, key: ApiKey) -> Allowance:
    """Count the request of this key, unless that was done, and return what the key has left."""
    allowance: Allowance | None = request.scope["state"].get(COUNTED)
    if allowance is None:
        allowance = take_allowance(context, key)
    request.state.reply_headers.update(allowance.headers)
    return allowance


def take_allowance(context: AppContext, key: ApiKey) -> Allowance:
    """Return what the key has left after one more request, or that it came too early."""
    return context.request_rate.take(key.prefix, key.requests_per_minute or context.limits.key_requests_per_minute)


def check_allowance(allowance: Allowance) -> None:
    """Raise RateLimited if the request came too early."""
    if allowance.retry_after_s is not None:
        raise RateLimited(
            f"this key may send {allowance.per_minute} requests a minute",
            limit=allowance.per_minute,
            retry_after_s=allowance.retry_after_s,
        )


OfTenant = Annotated[
    TenantName | None, Query(alias="tenant", description="Another tenant, for keys that may `operator` too.")
]
MayTrace = Annotated[Caller, Security(_caller, scopes=[Scope.TRACE.value])]
MayRead = Annotated[Caller, Security(_caller, scopes=[Scope.READ.value])]
MayInfer = Annotated[Caller, Security(_caller, scopes=[Scope.INFER.value])]
MayAdmin = Annotated[Caller, Security(_caller, scopes=[Scope.ADMIN.value])]
MayReadMetrics = Annotated[Caller, Security(_caller, scopes=[Scope.METRICS.value])]
MayOperate = Annotated[Caller, Security(_caller, scopes=[Scope.OPERATOR.value])]
