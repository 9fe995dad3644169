"""API keys: whom a request comes from, for which tenant, and what it may do."""

import hashlib
import re
import secrets
import string
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Self

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from service.domain.errors import ApiKeyInvalid
from tracehouse.frozen import Frozen

# The tenant of every request while keys are off, and of rows from before there were tenants.
DEFAULT_TENANT = "default"

_TENANT = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,61}[a-z0-9])?")
_TOKEN = re.compile(r"(th_[a-z0-9]{8})_([A-Za-z0-9]{43})")
_NAME_MAX = 100

REQUESTS_PER_MINUTE_MAX = 1_000_000
UPLOAD_MAX_BYTES_MAX = 2**60 - 1


def _check_tenant_name(value: str) -> str:
    if not _TENANT.fullmatch(value):
        raise PydanticCustomError(
            "tenant_name",
            "a tenant is 1 to 63 lower-case letters, digits, '_' or '-', with a letter or digit at both ends",
        )
    return value


def _check_key_name(value: str) -> str:
    # Names are printed in tables: none may move a terminal's cursor.
    if not (value.strip() and value.isprintable() and len(value) <= _NAME_MAX):
        raise PydanticCustomError("key_name", f"a key's name is 1 to {_NAME_MAX} printable characters")
    return value


TenantName = Annotated[str, AfterValidator(_check_tenant_name)]
KeyName = Annotated[str, AfterValidator(_check_key_name)]


class Scope(StrEnum):
    """What a key may be used for. `admin` allows everything within its tenant; `operator`, which it does not include,
    is for quotas and the audit log of all tenants, and for all that `metrics` is for: to read the service's metrics.
    """

    TRACE = "trace"
    READ = "read"
    INFER = "infer"
    ADMIN = "admin"
    OPERATOR = "operator"
    METRICS = "metrics"

    @property
    def of_tenant(self) -> bool:
        """Whether it says what may be done with the tenant's own things."""
        return self not in (Scope.OPERATOR, Scope.METRICS)


class ApiKey(Frozen):
    """A key without its secret. It opens only what belongs to its tenant. A limit of None is the service's own."""

    prefix: str
    name: KeyName
    tenant: TenantName
    scopes: frozenset[Scope] = Field(min_length=1)
    created_at: datetime
    expires_at: datetime | None = None
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None
    requests_per_minute: int | None = Field(None, gt=0, le=REQUESTS_PER_MINUTE_MAX)
    upload_max_bytes: int | None = Field(None, gt=0, le=UPLOAD_MAX_BYTES_MAX)

    @property
    def scopes_in_order(self) -> list[Scope]:
        """The scopes, in the order in which they are always listed."""
        return [scope for scope in Scope if scope in self.scopes]

    def allows(self, scope: Scope) -> bool:
        if scope in self.scopes or (Scope.ADMIN in self.scopes and scope.of_tenant):
            return True
        return scope is Scope.METRICS and Scope.OPERATOR in self.scopes

    def has_expired(self, now: datetime) -> bool:
        return self.expires_at is not None and self.expires_at <= now


@dataclass(frozen=True, slots=True)
class Token:
    """The text that the holder of a key sends: a prefix that finds the key, and a secret that is stored nowhere."""

    prefix: str
    secret: str = field(repr=False)

    @classmethod
    def new(cls) -> Self:
        prefix = _random(string.ascii_lowercase + string.digits, 8)
        # 43 of 62 characters: 256 bits.
        return cls(f"th_{prefix}", _random(string.ascii_letters + string.digits, 43))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises ApiKeyInvalid."""
        match = _TOKEN.fullmatch(text)
        if match is None:
            raise ApiKeyInvalid("this is not an API key of this service")
        return cls(*match.groups())

    @property
    def text(self) -> str:
        return f"{self.prefix}_{self.secret}"

    @property
    def digest(self) -> str:
        """Return the digest that is stored of the secret.

        It is a fast hash without salt: slow hashes and salts protect passwords, but 256 random bits cannot be guessed.
        """
        return hashlib.sha256(self.secret.encode()).hexdigest()


def _random(alphabet: str, length: int) -> str:
    return "".join(secrets.choice(alphabet) for _ in range(length))
