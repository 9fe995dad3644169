"""Bearer: the API key that a request shows."""

from fastapi import Request
from fastapi.security.utils import get_authorization_scheme_param

from service.api.context import AppContext
from service.domain.api_key import ApiKey
from service.domain.errors import ApiKeyInvalid, ApiKeyMissing


async def authenticate(request: Request, context: AppContext) -> ApiKey:
    """Return the key. Raises ApiKeyMissing, ApiKeyInvalid and ApiKeyExpired."""
    scheme, token = get_authorization_scheme_param(request.headers.get("authorization"))
    if scheme.lower() != "bearer" or not token:
        raise ApiKeyMissing("this request needs an API key")
    if len(request.headers.getlist("authorization")) > 1:  # a proxy in front may have checked another one
        raise ApiKeyInvalid("there are several Authorization headers")
    return await context.known_keys.authenticate(token)
