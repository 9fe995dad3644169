"""Bearer: the API key that a request shows."""

from collections.abc import Iterable, Sequence

from fastapi import Request
from fastapi.security.utils import get_authorization_scheme_param

from service.api.context import AppContext
from service.domain.api_key import DEFAULT_TENANT, ApiKey
from service.domain.errors import ApiKeyInvalid, ApiKeyMissing


async def authenticate(request: Request, context: AppContext) -> ApiKey:
    """Return the key. Raises ApiKeyMissing, ApiKeyInvalid and ApiKeyExpired."""
    return await authenticate_by(request.headers.getlist("authorization"), context)


async def authenticate_by(headers: Sequence[str], context: AppContext) -> ApiKey:
    """Return the key that these Authorization headers show. Raises what `authenticate` raises."""
    scheme, token = get_authorization_scheme_param(headers[0] if headers else None)
    if scheme.lower() != "bearer" or not token:
        raise ApiKeyMissing("this request needs an API key")
    if len(headers) > 1:  # a proxy in front may have checked another one
        raise ApiKeyInvalid("there are several Authorization headers")
    return await context.known_keys.authenticate(token)


def tenant_lately(context: AppContext, headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """Return whose key a request with these headers showed when it was last asked for, without asking again.

    It says whose turn it is, and not what the request may.
    """
    if not context.keys_required:
        return DEFAULT_TENANT
    shown = [value.decode("latin-1") for name, value in headers if name == b"authorization"]
    scheme, token = get_authorization_scheme_param(shown[0] if len(shown) == 1 else None)
    return context.known_keys.tenant_lately(token) if scheme.lower() == "bearer" else None
