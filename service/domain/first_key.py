"""The first key: the one that a service makes when it asks for keys and there has never been any."""

from service.domain.api_key import DEFAULT_TENANT, ApiKey, Scope
from tracehouse.frozen import Frozen

NAME = "first start"
TENANT = DEFAULT_TENANT
SCOPES = frozenset({Scope.ADMIN, Scope.OPERATOR})


class FirstKey(Frozen):
    """A key that was just made. `text` is to be shown, which is possible only now; None if a file has it."""

    key: ApiKey
    text: str | None
