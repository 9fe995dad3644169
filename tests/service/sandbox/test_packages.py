"""Folders of packages that a child is given: it imports from them, and from no others, and changes none."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from service.sandbox.limits import Limits
from service.sandbox.tiers import Tier
from service.sandbox.zygote import Zygote

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def packages() -> Iterator[Path]:
    """Where other users can enter: jailed code may run as one of them."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


@pytest.fixture(scope="module")
def jailing(offered_tier: Tier, packages: Path) -> Iterator[Zygote]:
    with Zygote(["programs.imports"], tier=offered_tier, path=[HERE], packages=packages) as zygote:
        yield zygote


def add(packages: Path, name: str) -> Path:
    folder = packages / name
    folder.mkdir(exist_ok=True)
    (folder / "scales.py").write_text(f"TEXT = {name!r}")
    return folder


def look(zygote: Zygote, limits: Limits, until: float, given: Path, other: Path) -> dict[str, Any]:
    with zygote.fork("programs.imports", limits, packages=[str(given)]) as child:
        child.channel.send({"module": "scales", "folder": str(given), "other": str(other / "scales.py")})
        seen, _ = child.channel.receive(until)
        return seen


def test_a_child_reads_what_it_was_given_and_writes_nothing(jailing, offered_tier, packages, limits, until):
    """The folders are made after the zygote has started: an environment may come while the service runs."""
    first, second = add(packages, "first"), add(packages, "second")

    seen, other = look(jailing, limits, until, first, second), look(jailing, limits, until, second, first)

    texts = ("first", "second") if offered_tier.reads_packages else (None, None)
    assert (seen["text"], other["text"]) == texts
    assert (seen["reads"], other["reads"]) == (False, False)
    assert (seen["changed"], other["changed"]) == ([], [])
    assert seen["last"] == str(first)
    assert sorted(path.name for path in first.iterdir() if path.suffix == ".py") == ["scales.py"]


def test_a_child_that_was_given_nothing_finds_nothing(jailing, packages, limits, until):
    first = add(packages, "first")
    with jailing.fork("programs.imports", limits) as child:
        child.channel.send({"module": "scales", "folder": str(first), "other": str(first / "scales.py")})
        seen, _ = child.channel.receive(until)

    assert (seen["text"], seen["reads"]) == (None, False)
