"""The `tracehouse` command against a real service: what a person at a shell sees."""

import os
import signal
import subprocess
from pathlib import Path

import httpx
import pytest

from tests.acceptance.conftest import LINEAR, TRACEHOUSE, Service, StartService

GATE = (Path(__file__).parents[2] / "examples" / "gate.py").read_text()


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "net.py").write_text(LINEAR)
    (tmp_path / "gate.py").write_text(GATE)
    return tmp_path


def run(here: Path, service: Service | None, *arguments: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
    address = service.address if service else "http://127.0.0.1:9"
    return subprocess.run(
        [TRACEHOUSE, *arguments],
        cwd=here,
        env=os.environ | {"TRACEHOUSE_URL": address},
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_model_is_traced_listed_and_asked(service: Service, here: Path) -> None:
    traced = run(here, service, "trace", "net.py:Net", "--input", "1x2", "--name", "shell")
    assert (traced.returncode, "verdict: verified   model: shell:1" in traced.stdout) == (0, True), traced.stderr
    assert "shell: 1 verified" in run(here, service, "models").stdout
    (here / "body.json").write_text('{"args": [[[1, 2]]]}')
    replies = {
        run(here, service, "infer", "shell", body, stdin='{"args": [[[1, 2]]]}').stdout
        for body in ('{"args": [[[1, 2]]]}', "@body.json", "-")
    }
    assert len(replies) == 1
    assert '"shape"' in replies.pop()
    assert "the body: " in run(here, service, "infer", "shell", '{"arg": [[[1, 2]]]}').stderr


def test_a_rejected_model_is_no_success_unless_it_is_accepted(service: Service, here: Path) -> None:
    rejected = run(here, service, "trace", "gate.py:Gate", "--input", "1x4")
    assert (rejected.returncode, "--accept-unsound" in rejected.stderr) == (3, True)
    accepted = run(here, service, "trace", "gate.py:Gate", "--input", "1x4", "--accept-unsound")
    assert (accepted.returncode, "model: gate:1" in accepted.stdout) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["net.py:Nett", "--input", "1x2"], ["entrypoint-not-found", "Net"]),
        (["net.py:Net", "--input", "1x5"], ["model-raised", "net.py:10: return self.linear(x).relu()"]),
        (["brackets.py:Net", "--input", "1x2"], ["bad axis [/foo] [bold]"]),
        (["returns_dict.py:Net", "--input", "1x2"], ["remedy: "]),
        (["net.py:Net", "--input", "1x2", "--name", "a/b"], ["/model: a name is"]),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_what_goes_wrong_is_told_with_its_line_and_remedy(
    service: Service, here: Path, arguments: list[str], said: list[str]
) -> None:
    head = "import torch\n\n\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        "
    (here / "brackets.py").write_text(head + "raise ValueError('bad axis [/foo] [bold]')\n")
    (here / "returns_dict.py").write_text(head + "return {'a': x}\n")
    failed = run(here, service, "trace", *arguments)
    assert failed.returncode == 1
    assert all(words in failed.stderr for words in said), failed.stderr
    assert "Traceback" not in failed.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["trace", "nope.py:Net", "--input", "1x2"], "there is no file nope.py"),
        (["trace", "net.py", "--input", "1x2"], "net.py:NAME"),
        (["trace", "net:Net", "--input", "1x2"], "neither a .py nor a .zip"),
        (["trace", "net.py:Net", "--input", "nope.npz#x"], "there is no file nope.npz"),
        (["trace", "net.py:Net", "--input", "1x2", "--init", "[1]"], "--init"),
        (["infer", "net", "@nope.json"], "there is no file nope.json"),
        (["serve", "--state", "net.py"], "--state"),
        (["serve", "--state", "/proc/nope"], "--state"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_slip_is_named_before_anything_is_sent(here: Path, arguments: list[str], said: str) -> None:
    refused = run(here, None, *arguments)
    assert (refused.returncode, said in refused.stderr) == (2, True), refused.stderr
    assert "Traceback" not in refused.stderr


def test_no_service_is_told_with_what_to_do(here: Path) -> None:
    refused = run(here, None, "trace", "net.py:Net", "--input", "1x2")
    assert (refused.returncode, "tracehouse serve" in refused.stderr) == (1, True)


def test_a_port_that_is_taken_is_named(service: Service, here: Path) -> None:
    port = service.address.rpartition(":")[2]
    refused = run(here, None, "serve", "--port", port, "--state", "other")
    assert (refused.returncode, f"port {port}" in refused.stderr, "--port" in refused.stderr) == (2, True, True)


def test_source_in_another_encoding_is_traced(service: Service, here: Path) -> None:
    source = "# -*- coding: latin-1 -*-\n# größer\n" + LINEAR
    (here / "latin.py").write_bytes(source.encode("latin-1"))
    traced = run(here, service, "trace", "latin.py:Net", "--input", "1x2")
    assert traced.returncode == 0, traced.stderr


def test_an_interrupt_cancels_the_request(start_service: StartService, here: Path) -> None:
    service = start_service()
    (here / "slow.py").write_text("import time\nprint('loading', flush=True)\ntime.sleep(60)\n")
    tracing = subprocess.Popen(
        [TRACEHOUSE, "trace", "slow.py:Net", "--input", "1x2", "--url", service.address],
        cwd=here,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert tracing.stderr is not None
    assert tracing.stderr.readline().strip() == "loading"
    tracing.send_signal(signal.SIGINT)
    said = tracing.stderr.read()
    assert (tracing.wait(), "Cancelled" in said) == (130, True), said
    [request] = httpx.get(f"{service.address}/trace").json()["trace_requests"]
    assert request["state"] == "cancelled"
