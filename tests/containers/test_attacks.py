"""Every attack again in a container, under Docker's own seccomp profile and none of our making."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
IMAGE = "tracehouse-attacks"
ATTACKS_MIN = 100


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


@pytest.mark.parametrize(
    ("user", "tier"), [("tracehouse", "landlock"), ("root", "uids")], ids=["an ordinary user", "root"]
)
def test_the_jail_holds_in_a_container(image: str, user: str, tier: str) -> None:
    doctor = docker(
        "run",
        "--rm",
        "--read-only",
        "--tmpfs",
        "/tmp",
        "--user",
        user,
        image,
        "tracehouse",
        "doctor",
        "--state",
        "/tmp",
    )
    assert re.search(rf"^ok +sandbox +{tier}:", doctor, re.MULTILINE), doctor

    attacked = docker("run", "--rm", "--read-only", "--tmpfs", "/tmp", "--user", user, image)
    passed = re.search(r"(\d+) passed", attacked)
    assert passed, attacked[-2000:]
    assert int(passed[1]) > ATTACKS_MIN
