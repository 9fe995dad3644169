from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from pydantic import ValidationError
from sqlalchemy import create_engine, text

from service.domain.api_key import Scope, Token
from service.domain.errors import ApiKeyExpired, ApiKeyInvalid, ApiKeyNotFound
from service.storage.database import Store

SOON = datetime.now(UTC) + timedelta(hours=1)
PAST = datetime.now(UTC) - timedelta(seconds=1)


def used_long_ago(database_url: str, prefix: str) -> None:
    engine = create_engine(database_url)
    with engine.begin() as connection:
        long_ago = {"then": datetime(2026, 1, 1), "prefix": prefix}  # noqa: DTZ001 - SQLite keeps no time zones
        connection.execute(text("UPDATE api_keys SET last_used_at = :then WHERE prefix = :prefix"), long_ago)
    engine.dispose()


def test_who_has_a_key_is_known_by_it(store):
    made, token = store.api_keys.create(
        "the CI", "acme", [Scope.READ, Scope.INFER], expires_at=SOON, requests_per_minute=5, upload_max_bytes=2**40
    )

    key = store.api_keys.authenticate(token)

    assert key == made
    assert (key.name, key.tenant, key.scopes) == ("the CI", "acme", {Scope.READ, Scope.INFER})
    assert (key.expires_at, key.requests_per_minute, key.upload_max_bytes) == (SOON, 5, 2**40)
    assert token.startswith(key.prefix)


def test_a_key_lasts_over_a_restart(store, database_url, blob_url):
    _, token = store.api_keys.create("me", "ours", [Scope.READ])
    store.close()

    again = type(store).open(database_url, blob_url)

    assert again.api_keys.authenticate(token).name == "me"
    again.close()


def test_a_secret_that_is_wrong_opens_nothing(store):
    _, token = store.api_keys.create("me", "ours", [Scope.READ])
    _, other = store.api_keys.create("you", "theirs", [Scope.READ])
    mixed = Token(Token.parse(token).prefix, Token.parse(other).secret).text

    for wrong in (mixed, token[:-1] + ("a" if token[-1] != "a" else "b"), Token.new().text, "th_'; DROP TABLE", ""):
        with pytest.raises(ApiKeyInvalid):
            store.api_keys.authenticate(wrong)


def test_a_wrong_secret_is_told_apart_from_an_unknown_key_by_nothing(store):
    _, token = store.api_keys.create("me", "ours", [Scope.READ])
    wrong = Token(Token.parse(token).prefix, Token.new().secret).text

    refusals = []
    for text_ in (wrong, Token.new().text):
        with pytest.raises(ApiKeyInvalid) as refused:
            store.api_keys.authenticate(text_)
        refusals.append(refused.value.failure())

    assert refusals[0] == refusals[1]


def test_a_key_that_has_expired_opens_nothing_more(store):
    key, token = store.api_keys.create("me", "ours", [Scope.READ], expires_at=PAST)

    with pytest.raises(ApiKeyExpired) as refused:
        store.api_keys.authenticate(token)

    assert refused.value.facts == {"expired_at": str(key.expires_at)}


def test_who_guesses_is_not_told_that_a_key_has_expired(store):
    key, _ = store.api_keys.create("me", "ours", [Scope.READ], expires_at=PAST)

    with pytest.raises(ApiKeyInvalid):
        store.api_keys.authenticate(Token(key.prefix, Token.new().secret).text)


def test_a_revoked_key_opens_nothing_more(store):
    key, token = store.api_keys.create("me", "ours", [Scope.READ])
    _, others = store.api_keys.create("you", "ours", [Scope.READ])

    revoked = store.api_keys.revoke(key.prefix)

    assert revoked.revoked_at is not None
    with pytest.raises(ApiKeyInvalid):
        store.api_keys.authenticate(token)
    assert store.api_keys.authenticate(others).name == "you"


def test_whatever_changes_keys_is_told_to_those_who_remember_them(store):
    key, text = store.api_keys.create("me", "ours", [Scope.READ])
    made = store.api_keys.last_write(text)
    other, others = store.api_keys.create("me", "ours", [Scope.READ])
    assert store.api_keys.last_write(text) == made

    store.api_keys.revoke(other.prefix)
    assert store.api_keys.last_write(text) == made
    assert store.api_keys.last_write(others) != made

    store.api_keys.revoke(key.prefix)
    assert store.api_keys.last_write(text) != made


def test_a_key_is_revoked_once(store):
    key, _ = store.api_keys.create("me", "ours", [Scope.READ])

    assert store.api_keys.revoke(key.prefix) == store.api_keys.revoke(key.prefix)


@pytest.mark.parametrize("prefix", ["th_ab12cd34", "", "%", "th_"])
def test_a_key_that_is_not_there_cannot_be_revoked(store, prefix):
    _, token = store.api_keys.create("me", "ours", [Scope.READ])

    with pytest.raises(ApiKeyNotFound) as refused:
        store.api_keys.revoke(prefix)

    assert refused.value.facts == {"prefix": prefix}
    assert store.api_keys.authenticate(token)


def test_keys_are_listed_with_when_they_were_used(store):
    unused, _ = store.api_keys.create("first", "ours", [Scope.READ])
    used, token = store.api_keys.create("second", "theirs", [Scope.ADMIN])
    before = datetime.now(UTC)
    store.api_keys.authenticate(token)
    store.api_keys.revoke(unused.prefix)

    first, second = store.api_keys.list()

    assert (first.prefix, first.last_used_at, first.revoked_at is None) == (unused.prefix, None, False)
    assert (second.prefix, second.tenant, second.revoked_at) == (used.prefix, "theirs", None)
    assert second.last_used_at >= before


def test_a_use_is_noted_again_after_a_while_only(store, database_url):
    key, token = store.api_keys.create("me", "ours", [Scope.READ])

    def used_at() -> datetime:
        store.api_keys.authenticate(token)
        return store.api_keys.list()[0].last_used_at

    first = used_at()
    assert used_at() == first

    used_long_ago(database_url, key.prefix)
    assert used_at() > first


def test_uses_at_the_same_time_are_all_let_in(store, at_once):
    _, token = store.api_keys.create("me", "ours", [Scope.READ])

    keys = at_once(*[lambda: store.api_keys.authenticate(token)] * 8)

    assert {key.name for key in keys} == {"me"}


def test_who_reads_the_database_finds_no_secret(store, database_url):
    key, token = store.api_keys.create("me", "ours", [Scope.READ])

    engine = create_engine(database_url)
    with engine.connect() as connection:
        row = str(connection.execute(text("SELECT * FROM api_keys")).one())
    engine.dispose()

    assert key.prefix in row
    assert Token.parse(token).secret not in row


def test_whether_anybody_could_come_in(store):
    assert not store.api_keys.any_usable()

    store.api_keys.create("late", "ours", [Scope.READ], expires_at=PAST)
    assert not store.api_keys.any_usable()

    key, _ = store.api_keys.create("me", "ours", [Scope.READ], expires_at=SOON)
    assert store.api_keys.any_usable()

    store.api_keys.revoke(key.prefix)
    assert not store.api_keys.any_usable()


def test_a_key_that_makes_no_sense_is_not_kept(store):
    with pytest.raises(ValidationError):
        store.api_keys.create("me", "No Tenant", [Scope.READ])
    with pytest.raises(ValidationError):
        store.api_keys.create("me", "ours", [])

    assert store.api_keys.list() == []


def test_of_several_services_that_start_at_once_one_makes_a_first_key(store, database_url, blob_url, at_once):
    services = [Store.open(database_url, blob_url) for _ in range(4)]

    made = at_once(*(partial(service.api_keys.create_first, Token.new()) for service in services))

    [key] = [one for one in made if one is not None]
    assert [one.prefix for one in store.api_keys.list()] == [key.prefix]
    for service in services:
        service.close()
