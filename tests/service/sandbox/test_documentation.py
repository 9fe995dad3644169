"""docs/sandbox.md names attacks that there are, of every kind."""

import re
from pathlib import Path

import attacks  # noqa: F401 - all of them
from attacks.attack import ATTACKS

PAGE = Path(__file__).parents[3] / "docs" / "sandbox.md"


def named() -> set[str]:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ") and line.count("|") > 3]
    return {name for row in rows for name in re.findall(r"`([a-z' ]+ [a-z' ]+)`", row.rpartition(" | ")[2])}


def test_every_attack_that_the_page_names_is_run():
    assert len(named()) > 50
    assert named() <= ATTACKS.keys()


def test_every_kind_of_attack_is_named():
    assert {ATTACKS[name].kind for name in named()} == {attack.kind for attack in ATTACKS.values()}
