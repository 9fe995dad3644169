"""Bearer: the API key that a request shows."""

from collections.abc import Sequence

from fastapi import Request
from fastapi.security.utils import get_authorization_scheme_param

from service.api.context import AppContext
from service.domain.api_key import ApiKey
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
