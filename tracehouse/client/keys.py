"""API keys of the service: who may use it as the tenant of the client's own key."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from tracehouse.client.arguments import read_list
from tracehouse.client.errors import NotSendable
from tracehouse.client.flow import Ask, Flow, get_list
from tracehouse.client.forms import KeyForm, KeyPage

Scope = Literal["trace", "read", "infer", "admin", "operator", "metrics"]

_PREFIX = re.compile(r"(th_[a-z0-9]{8})(_.*)?")


@dataclass(frozen=True)
class Key:
    """A key without its secret. `prefix` is its visible part; a limit of None is the service's own."""

    prefix: str
    name: str
    tenant: str
    scopes: Sequence[str] = field(hash=False)
    created_at: str
    expires_at: str | None
    last_used_at: str | None
    revoked_at: str | None
    requests_per_minute: int | None
    upload_max_bytes: int | None

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "Key":
        return cls(**{name: document[name] for name in Key.__dataclass_fields__})


@dataclass(frozen=True)
class CreatedKey:
    """A new key. `text` is what its holder sends, which the service never shows again."""

    key: Key
    text: str = field(repr=False)


class KeyFlows:
    """What can be asked of the keys, as flows. `tenant` is another tenant, for keys that may `operator` too."""

    def _list(self, *, tenant: str | None = None) -> Flow[list[Key]]:
        """Return all keys of the tenant, the oldest first, also expired and revoked ones."""
        documents = yield from get_list("/keys", "keys", KeyPage, _of(tenant))
        return [Key.of(one) for one in documents]

    def _create(
        self,
        name: str,
        scopes: Scope | Iterable[Scope] = ("trace", "read", "infer"),
        *,
        tenant: str | None = None,
        expires_at: datetime | None = None,
        requests_per_minute: int | None = None,
        upload_max_bytes: int | None = None,
    ) -> Flow[CreatedKey]:
        """Make a key, which may at most what the client's own key may. Its text is in the result, and only there."""
        if expires_at is not None and expires_at.tzinfo is None:
            raise NotSendable("expires_at has no time zone: write datetime.now(UTC) + timedelta(days=90)")
        wanted = {
            "name": name,
            "scopes": read_list("scopes", scopes, 'name scopes, as scopes=["trace", "read"]', (str,)),
            "tenant": tenant,
            "expires_at": None if expires_at is None else expires_at.isoformat(),
            "requests_per_minute": requests_per_minute,
            "upload_max_bytes": upload_max_bytes,
        }
        reply = yield Ask("POST", "/keys", json=wanted)
        made = reply.json(KeyForm)
        return CreatedKey(Key.of(made), made["key"])

    def _revoke(self, key: str, *, tenant: str | None = None) -> Flow[None]:
        """Revoke a key, by its visible part or as a whole: from now on it opens nothing."""
        visible = _PREFIX.fullmatch(key)
        if visible is None:
            raise NotSendable("this is no key: give its visible part, such as th_ab12cd34")
        # The secret part stays here: addresses are written to logs.
        yield Ask("DELETE", f"/keys/{visible[1]}", params=_of(tenant))


def _of(tenant: str | None) -> dict[str, str]:
    return {} if tenant is None else {"tenant": tenant}
