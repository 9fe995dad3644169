"""API keys: found by the prefix that anybody may see, proved by a secret of which only the digest is kept."""

import hmac
import logging
from collections.abc import Collection
from datetime import UTC, datetime, timedelta

from sqlalchemy import exists, insert, or_, select, update

from service.domain.api_key import ApiKey, Scope, Token
from service.domain.errors import ApiKeyExpired, ApiKeyInvalid, ApiKeyNotFound, StorageUnavailable
from service.storage import tables
from service.storage.transactions import Transactions

_key = tables.api_keys.c
_SHOWN = [_key[name] for name in ApiKey.model_fields]
# Each use would be a write for every read.
_NOTED_EVERY = timedelta(minutes=1)

log = logging.getLogger(__name__)


class ApiKeys:
    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def create(
        self,
        name: str,
        tenant: str,
        scopes: Collection[Scope],
        *,
        expires_at: datetime | None = None,
        requests_per_minute: int | None = None,
        upload_max_bytes: int | None = None,
    ) -> tuple[ApiKey, str]:
        """The key, and the text that its holder sends: nobody can read that again."""
        token = Token.new()
        key = ApiKey(
            prefix=token.prefix,
            name=name,
            tenant=tenant,
            scopes=frozenset(scopes),
            created_at=datetime.now(UTC),
            expires_at=expires_at,
            requests_per_minute=requests_per_minute,
            upload_max_bytes=upload_max_bytes,
        )
        with self._transactions.write() as connection:
            row = {field: getattr(key, field) for field in ApiKey.model_fields}
            connection.execute(insert(tables.api_keys).values(**row, digest=token.digest))
        return key, token.text

    def authenticate(self, text: str) -> ApiKey:
        """Whose it is. Raises ApiKeyInvalid, also for a revoked one, and ApiKeyExpired."""
        token = Token.parse(text)
        with self._transactions.read() as connection:
            row = connection.execute(
                select(*_SHOWN, _key.digest).where(_key.prefix == token.prefix, _key.revoked_at.is_(None))
            ).one_or_none()
        if row is None or not hmac.compare_digest(row.digest, token.digest):
            raise ApiKeyInvalid("the service knows no such key, or no longer")
        key = ApiKey.model_validate({field: row._mapping[field] for field in ApiKey.model_fields})
        now = datetime.now(UTC)
        if key.has_expired(now):
            raise ApiKeyExpired("the key has expired", expired_at=str(key.expires_at))
        self._note_use(key, now)
        return key

    def list(self) -> list[ApiKey]:
        """Every tenant's, oldest first, and those too that can no longer be used."""
        with self._transactions.read() as connection:
            rows = connection.execute(select(*_SHOWN).order_by(_key.created_at, _key.prefix)).mappings()
            return [ApiKey.model_validate(dict(row)) for row in rows]

    def revoke(self, prefix: str) -> ApiKey:
        """From now on it opens nothing; revoked again, it stays as it is. Raises ApiKeyNotFound."""
        found = _key.prefix == prefix
        with self._transactions.write() as connection:
            revoking = update(tables.api_keys).where(found, _key.revoked_at.is_(None))
            connection.execute(revoking.values(revoked_at=datetime.now(UTC)))
            row = connection.execute(select(*_SHOWN).where(found)).mappings().one_or_none()
        if row is None:
            raise ApiKeyNotFound("there is no API key with this prefix", prefix=prefix)
        return ApiKey.model_validate(dict(row))

    def any_usable(self) -> bool:
        """Whether there is a key that somebody could come in with."""
        lasting = or_(_key.expires_at.is_(None), _key.expires_at > datetime.now(UTC))
        with self._transactions.read() as connection:
            return bool(connection.scalar(select(exists().where(_key.revoked_at.is_(None), lasting))))

    def _note_use(self, key: ApiKey, now: datetime) -> None:
        if key.last_used_at is not None and key.last_used_at > now - _NOTED_EVERY:
            return
        stale = or_(_key.last_used_at.is_(None), _key.last_used_at <= now - _NOTED_EVERY)
        noting = update(tables.api_keys).where(_key.prefix == key.prefix, stale).values(last_used_at=now)
        try:
            with self._transactions.write() as connection:
                connection.execute(noting)
        except StorageUnavailable:  # a full disk, for one, is no reason to let nobody in who only reads
            log.warning("a key's use could not be noted", extra={"key": key.prefix})
