import shutil
import subprocess

import pytest


@pytest.fixture(scope="session")
def engine() -> None:
    """There is one to run containers."""
    if not shutil.which("docker") or subprocess.run(["docker", "info"], capture_output=True, check=False).returncode:
        pytest.skip("no Docker engine answers")
