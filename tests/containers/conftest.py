import shutil
import subprocess
from pathlib import Path

import pytest

from tests.containers.compose import STORE_IMAGE


@pytest.fixture(scope="session")
def engine() -> None:
    """There is one to run containers."""
    if not shutil.which("docker") or subprocess.run(["docker", "info"], capture_output=True, check=False).returncode:
        pytest.skip("no Docker engine answers")


@pytest.fixture(scope="session")
def store_image(engine: None) -> str:
    """What stands in for the image of the store."""
    subprocess.run(["docker", "build", "--tag", STORE_IMAGE, Path(__file__).with_name("store")], check=True)
    return STORE_IMAGE
