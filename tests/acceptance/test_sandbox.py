"""What whoever starts the service sees of the sandbox."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.acceptance.conftest import ANSWER_S, TRACEHOUSE, Service, StartService, ended

SECRET = "nobody's business"
THIEF = """
import pathlib

import torch


def stolen():
    print(pathlib.Path({path!r}).read_text())
    return torch.nn.Linear(2, 2)
"""


@pytest.fixture
def theft(tmp_path: Path) -> dict[str, object]:
    """A submission that prints a file of whoever runs the service."""
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    return {
        "model": "thief",
        "source": {"files": {"thief.py": THIEF.format(path=str(secret))}, "entrypoint": "thief:stolen"},
        "example_inputs": [{"datatype": "FP32", "shape": [1, 2], "random": {}}],
    }


def test_it_confines_by_itself_and_says_how(service: Service, theft: dict[str, object]) -> None:
    with service.client() as client:
        sandbox = client.get("/readyz").json()["sandbox"]
        request = ended(client, client.post("/trace", json=theft))
        log = client.get(request["links"]["log"]).text

    doctor = subprocess.run([TRACEHOUSE, "doctor"], capture_output=True, text=True, check=False).stdout
    assert f"{sandbox['tier']}: {sandbox['description']}" in doctor
    assert "submitted code is confined" in service.log.read_text()
    assert request["state"] == "failed"
    assert SECRET not in log + str(request)


def test_without_isolation_it_runs_only_if_asked_to_and_is_loud(
    start_service: StartService, theft: dict[str, object]
) -> None:
    service = start_service(SANDBOX="i-accept-no-isolation")
    with service.client() as client:
        sandbox = client.get("/readyz").json()["sandbox"]
        page = client.get("/docs").text
        request = ended(client, client.post("/trace", json=theft))
        log = client.get(request["links"]["log"]).text

    assert sandbox["tier"] == "i-accept-no-isolation"
    assert "No isolation" in page
    assert '"WARNING"' in next(line for line in service.log.read_text().splitlines() if "NOT confined" in line)
    assert (request["state"], SECRET in log) == ("succeeded", True)  # so the other test can fail


def test_where_the_wanted_tier_does_not_hold_it_does_not_start(tmp_path: Path) -> None:
    refused = subprocess.run(
        [TRACEHOUSE, "serve", "--port", "0", "--state", tmp_path / "state"],
        env=os.environ | {"SANDBOX": "bubblewrap", "PATH": "/nonexistent"},
        capture_output=True,
        text=True,
        check=False,
        timeout=ANSWER_S,
    )

    assert refused.returncode == 2
    assert "bubblewrap is not installed" in refused.stderr
    assert "SANDBOX=auto" in refused.stderr
    assert "Traceback" not in refused.stderr
