"""The key that artifacts are signed with is closed to what runs in the jail, even if its file is open to every user."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from service.sandbox.channel import ChannelClosed
from service.sandbox.limits import Limits, Profile
from service.sandbox.tiers import Tier
from service.sandbox.zygote import Zygote
from service.signing.signing_keys import SigningKeys

HERE = Path(__file__).parent
PROGRAM = "programs.opens"


@pytest.fixture(params=[0o600, 0o444], ids=["its own", "everybody's"])
def key_file(request: pytest.FixtureRequest) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as directory:
        keys = SigningKeys(Path(directory, "signing"))
        keys.open()
        if request.param != 0o600:
            Path(directory).chmod(0o755)
            keys.private_file.parent.chmod(0o755)
        keys.private_file.chmod(request.param)
        yield keys.private_file


def ask(zygote: Zygote, limits: Limits, path: Path, until: float, profile: Profile) -> dict[str, Any]:
    with zygote.fork(PROGRAM, limits, profile=profile) as child:
        child.channel.send({"path": str(path)})
        try:
            answer, _ = child.channel.receive(until)
        except ChannelClosed:
            return {"refused": "the kernel ended it"}
        return answer


@pytest.mark.parametrize("profile", ["trace", "infer"])
def test_no_tier_lets_a_child_read_the_key(
    offered_tier: Tier, limits: Limits, key_file: Path, until: float, profile: Profile
) -> None:
    with Zygote([PROGRAM], tier=offered_tier, path=[HERE]) as zygote:
        answer = ask(zygote, limits, key_file, until, profile)

    assert answer.keys() == {"refused"}, answer


def test_without_a_jail_it_could(limits: Limits, key_file: Path, until: float) -> None:
    """Or the test above could not fail."""
    with Zygote([PROGRAM], tier=Tier.NONE, path=[HERE]) as zygote:
        answer = ask(zygote, limits, key_file, until, "trace")

    assert "PRIVATE KEY" in answer["read"]


def test_where_a_child_may_read_is_known(tmp_path: Path) -> None:
    packages, elsewhere = tmp_path / "packages", tmp_path / "elsewhere"
    packages.mkdir()
    elsewhere.mkdir()
    (packages / "key.pem").touch()
    (elsewhere / "linked.pem").symlink_to(packages / "key.pem")
    (packages / "linked.pem").symlink_to(elsewhere / "key.pem")
    walls = Tier.LANDLOCK.walls([PROGRAM]).with_readable([str(packages)])

    assert walls.lets_read(packages / "key.pem")
    assert walls.lets_read(elsewhere / "linked.pem")
    assert not walls.lets_read(elsewhere / "key.pem")
    assert not walls.lets_read(packages / "linked.pem")
