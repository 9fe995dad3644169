"""docker-compose on a file of this tree, as a project of its own."""

import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).parents[2]
# Ten times what each takes on an idle machine, and more: no outcome is to hang on how busy it is.
READY_S = 300
ANSWER_S = 300
# Runs in the place of SeaweedFS's image: store/ says what it is.
STORE_IMAGE = "tracehouse-store-stand-in"

DOUBLE = """
import torch

class Double(torch.nn.Module):
    def forward(self, x):
        return x * 2
"""


class Compose:
    """A project of `docker-compose.yml`, with files that change it. `api` is the container that answers."""

    def __init__(
        self,
        project: str,
        files: Sequence[Path | str] = (),
        *,
        profile: str | None = None,
        api: str = "api",
        **environment: str,
    ) -> None:
        command = ["docker-compose"] if shutil.which("docker-compose") else ["docker", "compose"]
        named = [option for file in ("docker-compose.yml", *files) for option in ("--file", str(file))]
        of_profile = ["--profile", profile] if profile else []
        self._command = [*command, *named, *of_profile, "--project-name", project]
        self._api = api
        self._environment = {"S3_IMAGE": STORE_IMAGE, **environment}

    def __call__(self, *arguments: str) -> str:
        done = subprocess.run(
            [*self._command, *arguments],
            cwd=ROOT,
            env=os.environ | self._environment,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    def wait_until_healthy(self, name: str | None = None) -> None:
        """Wait for its healthcheck to say so."""
        name = name or self._api
        container = self("ps", "--quiet", name)
        deadline = time.monotonic() + READY_S
        while (health := _health(container)) != "healthy":
            assert time.monotonic() < deadline, f"{health} after {READY_S} s:\n{self('logs', '--no-color', name)}"
            time.sleep(0.5)

    def wait_until_ended(self, *names: str) -> list[int]:
        """Wait for what they do to be done; returns their exit statuses."""
        ended = subprocess.run(
            ["docker", "wait", *self("ps", "--all", "--quiet", *names).split()],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return [int(status) for status in ended.stdout.split()]

    def first_key(self) -> str:
        """The key that the first start shows in the log, once."""
        [key] = re.findall(r"\| +(th_\w+)$", self("logs", "--no-color", self._api), re.MULTILINE)
        return str(key)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


def _health(container: str) -> str:
    inspect = ["docker", "inspect", "--format", "{{.State.Health.Status}}", container]
    return subprocess.run(inspect, capture_output=True, text=True, check=True).stdout.strip()


def submit(client: httpx.Client, source: str, model: str) -> dict[str, Any]:
    body = {
        "model": model,
        "source": {"files": {"double.py": source}, "entrypoint": "double:Double"},
        "example_inputs": [{"datatype": "FP32", "shape": [3], "data": [1, 2, 3]}],
        "check": {"budget": "quick"},
    }
    reply = client.post("/trace", json=body)
    assert reply.status_code == 202, reply.text
    submitted: dict[str, Any] = reply.json()
    return submitted


def follow(client: httpx.Client, request: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of the request's events until it has ended."""
    with client.stream("GET", request["links"]["events"]) as events:
        yield from events.iter_lines()


def archive_of(client: httpx.Client, request: dict[str, Any]) -> bytes:
    """Return what the trace request, which has ended, has made."""
    ended = client.get(f"/trace/{request['id']}").json()
    assert ended["state"] == "succeeded", ended
    [artifact] = ended["artifacts"]
    return client.get(f"/artifacts/{artifact['digest']}/archive").raise_for_status().content
