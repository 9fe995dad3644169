"""What the service is built with: a key to sign with, unless submitted code could read it; and a first API key."""

from pathlib import Path
from typing import Any

import pytest

from service.api.context import AppContext
from service.domain.api_key import Scope, Token
from service.domain.first_key import FirstKey
from service.main import FirstKeyUnusable, NoUsableKey, build
from service.sandbox.tiers import Tier
from service.settings import Settings
from service.storage.api_keys import ApiKeys
from service.storage.database import open_database


def context_of(state_dir: Path, tier: Tier) -> AppContext:
    app = build(Settings(state_dir=state_dir), keys_required=False, tier=tier, on_first_key=pytest.fail)
    context: AppContext = app.state.context
    context.store.close()
    return context


def test_a_service_in_a_sandbox_has_the_same_key_at_each_start(tmp_path: Path, tier: Tier) -> None:
    first, second = (context_of(tmp_path, tier).signing_keys for _ in range(2))

    assert first.current is not None
    assert [key.id for key in second] == [first.current.id]


def test_without_a_sandbox_nothing_is_signed_and_no_key_is_made(tmp_path: Path) -> None:
    keys = context_of(tmp_path, Tier.NONE).signing_keys

    assert (keys.current, [*keys]) == (None, [])
    assert not (tmp_path / "signing").exists()


def test_without_a_sandbox_the_keys_that_signed_before_stay_listed(tmp_path: Path, tier: Tier) -> None:
    before = context_of(tmp_path, tier).signing_keys.current
    keys = context_of(tmp_path, Tier.NONE).signing_keys

    assert before is not None
    assert (keys.current, [key.id for key in keys]) == (None, [before.id])


def first_keys(state_dir: Path, **settings: Any) -> list[FirstKey]:
    """What a start shows where every caller needs a key."""
    shown: list[FirstKey] = []
    options = Settings(state_dir=state_dir, **settings)
    app = build(options, keys_required=True, tier=Tier.NONE, on_first_key=shown.append)
    app.state.context.store.close()
    return shown


def keys_of(state_dir: Path) -> ApiKeys:
    return ApiKeys(open_database(Settings(state_dir=state_dir).database))


def test_the_first_start_makes_a_key_that_may_do_everything_and_shows_it_once(tmp_path: Path) -> None:
    [first] = first_keys(tmp_path)

    assert first_keys(tmp_path) == []
    assert first.text is not None
    key = keys_of(tmp_path).authenticate(first.text)
    assert all(key.allows(scope) for scope in Scope)
    assert (key.prefix, key.tenant) == (first.key.prefix, "default")
    assert [each.prefix for each in keys_of(tmp_path).list()] == [key.prefix]


def test_where_somebody_has_made_a_key_none_is_made(tmp_path: Path) -> None:
    keys = keys_of(tmp_path)
    keys.create("me", "acme", [Scope.READ])

    assert first_keys(tmp_path) == []
    assert [each.name for each in keys.list()] == ["me"]


def test_a_service_of_which_all_keys_were_revoked_is_not_opened_by_a_restart(tmp_path: Path) -> None:
    [first] = first_keys(tmp_path)
    keys = keys_of(tmp_path)
    keys.revoke(first.key.prefix)

    with pytest.raises(NoUsableKey):
        first_keys(tmp_path)

    assert len(keys.list()) == 1


def test_the_first_key_is_taken_from_a_file_and_not_shown(tmp_path: Path) -> None:
    token = Token.new()
    file = tmp_path / "first-key.txt"
    file.write_text(f"{token.text}\n")

    [first] = first_keys(tmp_path / "state", first_key_file=file)

    assert (first.text, first.key.prefix) == (None, token.prefix)
    assert keys_of(tmp_path / "state").authenticate(token.text).allows(Scope.OPERATOR)
    file.write_text(Token.new().text)
    assert first_keys(tmp_path / "state", first_key_file=file) == []
    assert len(keys_of(tmp_path / "state").list()) == 1


@pytest.mark.parametrize("content", [b"", b"secret", b"\xff", b"th_ab12cd34"])
def test_a_file_that_has_no_key_makes_none(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "first-key.txt"
    file.write_bytes(content)

    with pytest.raises(FirstKeyUnusable):
        first_keys(tmp_path / "state", first_key_file=file)

    assert keys_of(tmp_path / "state").list() == []
