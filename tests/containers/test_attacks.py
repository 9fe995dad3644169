"""Every attack again in a container, under Docker's own seccomp profile and none of our making."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
IMAGE = "tracehouse-attacks"
ATTACKS_MIN = 100
# Who runs it, and the tier that is the strongest for them.
TIERS = {"tracehouse": "landlock", "root": "uids"}
RUN = ["run", "--rm", "--read-only", "--tmpfs", "/tmp", "--user"]


@pytest.fixture(scope="module")
def image(engine: None) -> str:
    docker("build", "--tag", "tracehouse", ".")
    docker("build", "--tag", IMAGE, "--file", "tests/containers/attacks.Dockerfile", "tests")
    return IMAGE


def docker(*arguments: str) -> str:
    done = subprocess.run(
        ["docker", *arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-8000:]
    return done.stdout


@pytest.fixture(scope="module")
def attacks(image: str) -> Iterator[dict[str, "subprocess.Popen[str]"]]:
    """By user, every attack as that user: side by side, in containers that do not see one another."""
    running = {
        user: subprocess.Popen(
            ["docker", *RUN, user, image], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        for user in TIERS
    }
    yield running
    for one in running.values():
        one.kill()
        one.wait()


@pytest.mark.parametrize("user", TIERS, ids=["an ordinary user", "root"])
def test_the_jail_holds_in_a_container(image: str, attacks: dict[str, "subprocess.Popen[str]"], user: str) -> None:
    doctor = docker(*RUN, user, image, "tracehouse", "doctor", "--state", "/tmp")
    assert re.search(rf"^ok +sandbox +{TIERS[user]}:", doctor, re.MULTILINE), doctor

    attacked, _ = attacks[user].communicate()
    assert attacks[user].returncode == 0, attacked[-8000:]
    passed = re.search(r"(\d+) passed", attacked)
    assert passed, attacked[-2000:]
    assert int(passed[1]) > ATTACKS_MIN
