"""The strongest tier that holds is taken, and one that does not hold is refused with the reason."""

import pytest

from service.sandbox import choice
from service.sandbox.choice import NoTierHolds, choose, fault_of
from service.sandbox.tiers import Tier
from service.sandbox.zygote import Zygote


@pytest.fixture
def no_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")


def test_the_strongest_that_holds_is_chosen():
    assert choose() is choice.offered()[0]


def test_without_bubblewrap_the_next_one_is_chosen(no_programs):
    assert fault_of(Tier.BUBBLEWRAP) == "it does not start: it cannot be started here: bubblewrap is not installed"
    assert choose() in (Tier.UIDS, Tier.LANDLOCK)


def test_a_tier_that_was_asked_for_and_does_not_hold_is_refused_and_no_weaker_one_taken(no_programs):
    with pytest.raises(NoTierHolds, match="bubblewrap is not installed"):
        choose("bubblewrap")


def test_a_weaker_tier_can_be_asked_for():
    assert choose("seccomp") is Tier.SECCOMP


def test_no_isolation_is_taken_only_where_it_was_asked_for():
    assert choose("i-accept-no-isolation") is Tier.NONE
    assert Tier.NONE not in choice.offered()


@pytest.mark.parametrize("tier", [Tier.LANDLOCK, Tier.SECCOMP])
def test_the_self_test_of_a_jail_whose_walls_are_missing_is_not_clean(tier):
    """The zygote puts up no walls, and is tested as if it had."""
    with Zygote(["service.sandbox.selftest"], tier=Tier.NONE) as zygote:
        assert list(choice.faults(zygote, tier))
