"""The strongest tier that holds is taken, and one that does not hold is refused with the reason."""

from pathlib import Path

import pytest

from service.sandbox import choose_tier
from service.sandbox.choose_tier import NoTierHolds, choose, fault_of
from service.sandbox.tiers import Tier
from service.sandbox.zygote import Zygote

# Of the self-test's attacks, those that no system forbids to an ordinary user without a jail.
POSSIBLE_FOR_EVERYBODY = [
    "reads a file",
    "lists a directory",
    "writes a file",
    "creates a file",
    "changes a file's mode",
    "opens a socket",
    "opens a unix socket",
    "forks",
    "signals another process",
]
EXECUTES_NOTHING = """
import os

def execv(path, arguments):
    raise PermissionError(path)

os.execv = execv
"""


@pytest.fixture
def no_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")


def test_the_strongest_that_holds_is_chosen():
    assert choose() is choose_tier.tiers_that_hold()[0]


def test_without_bubblewrap_the_next_one_is_chosen(no_programs):
    assert fault_of(Tier.BUBBLEWRAP) == "it cannot be started here: bubblewrap is not installed"
    assert choose() in (Tier.UIDS, Tier.LANDLOCK)


def test_a_tier_that_was_asked_for_and_does_not_hold_is_refused_and_no_weaker_one_taken(no_programs):
    with pytest.raises(NoTierHolds, match="bubblewrap is not installed"):
        choose("bubblewrap")


def test_a_weaker_tier_can_be_asked_for():
    assert choose("seccomp") is Tier.SECCOMP


def test_no_isolation_is_taken_only_where_it_was_asked_for():
    assert choose("i-accept-no-isolation") is Tier.NONE
    assert Tier.NONE not in choose_tier.tiers_that_hold()


@pytest.mark.parametrize("profile", ["trace", "infer"])
@pytest.mark.parametrize("tier", [Tier.LANDLOCK, Tier.SECCOMP])
def test_the_self_test_of_a_jail_whose_walls_are_missing_names_what_got_through(tmp_path: Path, tier, profile):
    """The zygote puts up no walls, and is tested as if it had."""
    preload = tmp_path / "preload.py"
    preload.write_text(EXECUTES_NOTHING)
    with Zygote(["service.sandbox.selftest"], preload, tier=Tier.NONE) as zygote:
        told = "".join(fault for fault in choose_tier.faults(zygote, tier) if fault.endswith(f"({profile})"))

    assert [attack for attack in POSSIBLE_FOR_EVERYBODY if attack not in told] == []


@pytest.mark.parametrize("tier", [Tier.LANDLOCK, Tier.SECCOMP])
def test_the_self_test_of_a_jail_in_which_programs_are_executed_is_not_clean(tier):
    """Another program in its place ends it, before it can say what got through."""
    with Zygote(["service.sandbox.selftest"], tier=Tier.NONE) as zygote:
        faults = list(choose_tier.faults(zygote, tier))

    assert ["did not come to its end" in fault for fault in faults] == [True, True]
