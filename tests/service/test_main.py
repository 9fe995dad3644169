"""What the service is built with: a key to sign with, unless submitted code could read it."""

from pathlib import Path

from service.api.context import AppContext
from service.main import build
from service.sandbox.tiers import Tier
from service.settings import Settings


def context_of(state_dir: Path, tier: Tier) -> AppContext:
    app = build(Settings(state_dir=state_dir), keys_required=False, tier=tier)
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
