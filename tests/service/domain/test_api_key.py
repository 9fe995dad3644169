"""Keys, their scopes, and the text that their holders send."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from service.domain.api_key import ApiKey, Scope, Token
from service.domain.errors import ApiKeyInvalid

NOW = datetime.now(UTC)


def key(**changes: Any) -> ApiKey:
    usual = {"prefix": "th_ab12cd34", "name": "me", "tenant": "ours", "scopes": {Scope.READ}, "created_at": NOW}
    return ApiKey.model_validate(usual | changes)


def test_a_key_is_for_the_scopes_that_it_has() -> None:
    assert key(scopes={Scope.READ}).allows(Scope.READ)
    assert not key(scopes={Scope.READ, Scope.TRACE}).allows(Scope.INFER)
    assert not key(scopes={Scope.READ, Scope.TRACE, Scope.INFER}).allows(Scope.ADMIN)


@pytest.mark.parametrize("scope", [one for one in Scope if one not in (Scope.OPERATOR, Scope.METRICS)])
def test_an_administrators_key_is_for_all_that_is_its_tenants(scope: Scope) -> None:
    assert key(scopes={Scope.ADMIN}).allows(scope)


def test_what_is_all_tenants_is_for_operators_alone() -> None:
    assert not key(scopes={Scope.ADMIN}).allows(Scope.OPERATOR)
    assert key(scopes={Scope.OPERATOR}).allows(Scope.OPERATOR)
    assert not key(scopes={Scope.OPERATOR}).allows(Scope.READ)


def test_a_key_expires_when_it_says() -> None:
    assert key(expires_at=NOW).has_expired(NOW)
    assert not key(expires_at=NOW + timedelta(seconds=1)).has_expired(NOW)
    assert not key(expires_at=None).has_expired(NOW)


@pytest.mark.parametrize("tenant", ["a", "7", "acme-labs_2", "a" * 63])
def test_a_tenant_has_a_plain_name(tenant: str) -> None:
    assert key(tenant=tenant).tenant == tenant


@pytest.mark.parametrize("tenant", ["", "a" * 64, "Acme", "-a", "a_", "a b", "a/b", "ä", "a\n", "../a", "a\x00"])
def test_another_name_is_no_tenants(tenant: str) -> None:
    with pytest.raises(ValidationError):
        key(tenant=tenant)


@pytest.mark.parametrize(
    "changes",
    [
        {"scopes": set()},
        {"scopes": {"root"}},
        {"name": ""},
        {"name": "  "},
        {"name": "a\nb"},
        {"name": "\x1b[2J"},
        {"name": "a" * 101},
        {"requests_per_minute": 0},
        {"upload_max_bytes": -1},
        {"upload_max_bytes": 2**63},
    ],
)
def test_a_key_that_makes_no_sense_is_not_made(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        key(**changes)


def test_a_token_is_read_as_it_was_written() -> None:
    token = Token.new()

    assert Token.parse(token.text) == token
    assert token.text.startswith(f"{token.prefix}_")
    assert Token.parse(token.text).digest == token.digest


def test_no_two_tokens_are_alike() -> None:
    tokens = [Token.new() for _ in range(100)]

    assert len({token.prefix for token in tokens}) == len({token.secret for token in tokens}) == 100
    assert len({token.digest for token in tokens}) == 100


def test_a_token_does_not_show_its_secret() -> None:
    token = Token.new()

    assert token.secret not in repr(token)
    assert token.secret not in token.digest


GOOD = "th_ab12cd34_" + "x" * 43


@pytest.mark.parametrize(
    "text",
    [
        "",
        "th_",
        "th_ab12cd34",
        "th_ab12cd34_",
        GOOD[:-1],
        GOOD + "x",
        GOOD + "\n",
        " " + GOOD,
        GOOD.upper(),
        GOOD.replace("th_", "tr_"),
        GOOD.replace("ab12", "ab/2"),
        GOOD.replace("xx", "x=", 1),
        GOOD.replace("xx", "x\x00", 1),
        GOOD.replace("xx", "xü", 1),
        GOOD.replace("xx", "x٣", 1),
        GOOD * 100_000,
    ],
)
def test_what_is_no_token_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(ApiKeyInvalid) as refused:
        Token.parse(text)

    assert refused.value.facts == {}
    assert text not in refused.value.detail or not text
