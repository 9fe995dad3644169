"""Known keys: those of the last second, so that most requests wait for no thread and no database."""

import hashlib
from datetime import UTC, datetime

from service.domain.api_key import ApiKey
from service.domain.errors import ApiKeyExpired
from service.serving.lookup import Lookup
from service.storage.database import Store

_KEYS_MAX = 4096
# For so long, a key that another process revokes may still open what it opened.
_KEY_AGE_S = 1.0


class KnownKeys:
    """Finds a key by the text that its holder sends, of which only a digest is remembered."""

    def __init__(self, store: Store) -> None:
        self._lookup = Lookup(
            store.api_keys.authenticate,
            _KEYS_MAX,
            version=store.api_keys.last_write,
            max_age_s=_KEY_AGE_S,
            name=lambda token_text: hashlib.sha256(token_text.encode(errors="surrogatepass")).digest(),
        )

    async def authenticate(self, text: str) -> ApiKey:
        """Return the key of this text. Raises ApiKeyInvalid, also if it was revoked, and ApiKeyExpired."""
        key = await self._lookup.ask(text)
        if key.has_expired(datetime.now(UTC)):
            raise ApiKeyExpired("the key has expired", expired_at=str(key.expires_at))
        return key

    def remembered(self, text: str) -> ApiKey | None:
        """Return what `authenticate` would return at once; None if it would have to read, or would raise."""
        key = self._lookup.remembered(text)
        return None if key is None or key.has_expired(datetime.now(UTC)) else key

    def tenant_lately(self, text: str) -> str | None:
        """Return the tenant of the key when it was last read, which may have been revoked since."""
        key = self._lookup.lately(text)
        return None if key is None else key.tenant
