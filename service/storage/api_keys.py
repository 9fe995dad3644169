"""API keys: found by their prefix, and checked by a secret of which only the digest is stored."""

import hmac
import logging
from collections.abc import Collection, Hashable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from pydantic import Field, JsonValue
from sqlalchemy import ColumnElement, Connection, and_, delete, exists, func, insert, or_, select, text, update

from service.domain import first_key
from service.domain.api_key import ApiKey, Scope, Token
from service.domain.audit import SERVICE, Actor
from service.domain.errors import ApiKeyExpired, ApiKeyInvalid, ApiKeyNotFound, StorageUnavailable, TooManyKeys
from service.storage import tables
from service.storage.audit import record
from service.storage.page import Cursor, Moment, Page
from service.storage.quotas import Room
from service.storage.transactions import Transactions

_key = tables.api_keys.c
_COLUMNS = [_key[name] for name in ApiKey.model_fields]
_cursor = Cursor(tuple[Moment, Annotated[str, Field(pattern="^[a-z0-9_]{1,16}$")]])
# Recording each use would make a write of every read.
_USE_RECORDED_EVERY = timedelta(minutes=1)

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
        keys_max: int | None = None,
        by: Actor = SERVICE,
        room: Room | None = None,
    ) -> tuple[ApiKey, str]:
        """Make a key; return it with the text that its holder sends, which cannot be read again.

        With `keys_max`, the tenant may have so many, and as many that have ended are kept.

        Raises TooManyKeys and StorageQuotaExceeded.
        """
        token = Token.new()
        key = _new_key(
            token,
            name,
            tenant,
            scopes,
            expires_at=expires_at,
            requests_per_minute=requests_per_minute,
            upload_max_bytes=upload_max_bytes,
        )
        with self._transactions.write() as connection:
            if keys_max is not None:
                _make_room(connection, tenant, keys_max)
            _add(connection, key, token, by, room)
        return key, token.text

    def create_first(self, token: Token) -> ApiKey | None:
        """Make a key for whoever runs the service, with this token; None if there is or was any key.

        Of several processes that do this at once, one makes a key.
        """
        key = _new_key(token, first_key.NAME, first_key.TENANT, first_key.SCOPES)
        with self._transactions.write() as connection:
            _lock(connection)
            if connection.scalar(select(exists().where(_key.prefix.is_not(None)))):
                return None
            _add(connection, key, token, SERVICE)
        return key

    def last_write(self, token_text: str) -> Hashable:
        """Return a value that changes whenever this process writes the key of this text. Raises ApiKeyInvalid."""
        return self._transactions.last_write(Token.parse(token_text).prefix, tables.api_keys)

    def authenticate(self, token_text: str) -> ApiKey:
        """Return the key of this text. Raises ApiKeyInvalid, also if it is revoked, and ApiKeyExpired."""
        token = Token.parse(token_text)
        with self._transactions.read() as connection:
            row = connection.execute(
                select(*_COLUMNS, _key.digest).where(_key.prefix == token.prefix, _key.revoked_at.is_(None))
            ).one_or_none()
        if row is None or not hmac.compare_digest(row.digest, token.digest):
            raise ApiKeyInvalid("the service has no such key, or it was revoked")
        key = ApiKey.model_validate({field: row._mapping[field] for field in ApiKey.model_fields})
        now = datetime.now(UTC)
        if key.has_expired(now):
            raise ApiKeyExpired("the key has expired", expired_at=str(key.expires_at))
        self._record_use(key, now)
        return key

    def list(self) -> list[ApiKey]:
        """Return the keys of all tenants, oldest first, also expired and revoked ones."""
        with self._transactions.read() as connection:
            rows = connection.execute(select(*_COLUMNS).order_by(_key.created_at, _key.prefix)).mappings()
            return [ApiKey.model_validate(dict(row)) for row in rows]

    def list_of(self, tenant: str, limit: int, after: str | None = None) -> Page[ApiKey]:
        """Return a page of the tenant's keys, oldest first, also expired and revoked ones. Raises InvalidCursor."""
        query = select(*_COLUMNS).where(_key.tenant == tenant).order_by(_key.created_at, _key.prefix).limit(limit + 1)
        if after is not None:
            created_at, prefix = _cursor.place(after)
            query = query.where(
                or_(_key.created_at > created_at, and_(_key.created_at == created_at, _key.prefix > prefix))
            )
        with self._transactions.read() as connection:
            keys = [ApiKey.model_validate(dict(row)) for row in connection.execute(query).mappings()]
        return _cursor.page(keys, limit, lambda key: (key.created_at, key.prefix))

    def get(self, tenant: str, prefix: str) -> ApiKey:
        """Return a key of the tenant. Raises ApiKeyNotFound."""
        query = select(*_COLUMNS).where(_key.tenant == tenant, _key.prefix == prefix)
        with self._transactions.read() as connection:
            row = connection.execute(query).mappings().one_or_none()
        if row is None:
            raise ApiKeyNotFound("there is no API key with this prefix", prefix=prefix)
        return ApiKey.model_validate(dict(row))

    def revoke(self, prefix: str, *, by: Actor = SERVICE) -> ApiKey:
        """Revoke the key; it may be revoked already. Raises ApiKeyNotFound."""
        is_named = _key.prefix == prefix
        with self._transactions.write() as connection:
            revoking = update(tables.api_keys).where(is_named, _key.revoked_at.is_(None))
            is_new = connection.execute(revoking.values(revoked_at=datetime.now(UTC))).rowcount > 0
            row = connection.execute(select(*_COLUMNS).where(is_named)).mappings().one_or_none()
            if row is not None and is_new:
                record(connection, by, row["tenant"], "key.revoke", prefix)
        if row is None:
            raise ApiKeyNotFound("there is no API key with this prefix", prefix=prefix)
        return ApiKey.model_validate(dict(row))

    def any_usable(self) -> bool:
        """Whether there is a key that is neither expired nor revoked."""
        with self._transactions.read() as connection:
            return bool(connection.scalar(select(exists().where(_is_usable()))))

    def _record_use(self, key: ApiKey, now: datetime) -> None:
        if key.last_used_at is not None and key.last_used_at > now - _USE_RECORDED_EVERY:
            return
        stale = or_(_key.last_used_at.is_(None), _key.last_used_at <= now - _USE_RECORDED_EVERY)
        recording = update(tables.api_keys).where(_key.prefix == key.prefix, stale).values(last_used_at=now)
        try:
            with self._transactions.write() as connection:
                connection.execute(recording)
        except StorageUnavailable:  # a full disk, for example, must not keep out those who only read
            log.warning("a key's use could not be recorded", extra={"key": key.prefix})


def _new_key(token: Token, name: str, tenant: str, scopes: Collection[Scope], **limits: Any) -> ApiKey:
    made = {"prefix": token.prefix, "scopes": frozenset(scopes), "created_at": datetime.now(UTC)}
    return ApiKey(name=name, tenant=tenant, **made, **limits)


def _add(connection: Connection, key: ApiKey, token: Token, by: Actor, room: Room | None = None) -> None:
    row = {field: getattr(key, field) for field in ApiKey.model_fields}
    connection.execute(insert(tables.api_keys).values(**row, digest=token.digest))
    may: list[JsonValue] = [*sorted(key.scopes)]
    record(connection, by, key.tenant, "key.create", key.prefix, room=room, name=key.name, scopes=may)


def _make_room(connection: Connection, tenant: str, keys_max: int) -> None:
    """Raise TooManyKeys if the tenant has so many keys that open anything; forget those that ended earliest."""
    its_own, is_usable = _key.tenant == tenant, _is_usable()
    if (connection.scalar(select(func.count()).where(its_own, is_usable)) or 0) >= keys_max:
        raise TooManyKeys(f"a tenant may have {keys_max} keys that are neither revoked nor expired", limit=keys_max)
    latest_first = func.coalesce(_key.revoked_at, _key.expires_at).desc(), _key.prefix
    ended = select(_key.prefix).where(its_own, ~is_usable).order_by(*latest_first)
    forgotten = connection.scalars(ended.offset(keys_max)).all()
    for prefix in forgotten:  # one by one: a list of them would count as a write of all keys, which are read anew then
        connection.execute(delete(tables.api_keys).where(_key.prefix == prefix))


def _is_usable() -> ColumnElement[bool]:
    is_valid = or_(_key.expires_at.is_(None), _key.expires_at > datetime.now(UTC))
    return and_(_key.revoked_at.is_(None), is_valid)


def _lock(connection: Connection) -> None:
    """Keep others who would make a first key waiting until the transaction ends."""
    if connection.dialect.name == "postgresql":  # SQLite has one writer at a time
        connection.execute(
            text("SELECT pg_advisory_xact_lock(hashtextextended('first key of ' || current_schema(), 0))")
        )
