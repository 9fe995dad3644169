"""The sessions of the README, and of the pages that go on from it, print what is shown."""

import os
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.acceptance.conftest import StartService
from tests.sessions import assert_as_shown, blocks_of, parse, without_cuts

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
KEYS_PAGE = (ROOT / "docs" / "keys.md").read_text()
SIGNATURES_PAGE = (ROOT / "docs" / "signatures.md").read_text()
ADDRESS = "http://127.0.0.1:8000"
BIN = str(Path(sys.executable).parent)


[DEMO] = [parse(block)[0][1] for block in blocks_of(README, "console") if block.startswith("$ make demo")]
SESSION = [
    step for block in blocks_of(README, "console") if not block.startswith("$ make demo") for step in parse(block)
]


class Shell:
    """What a reader types, one command after the other; `tracehouse serve` runs already."""

    def __init__(self, state: Path) -> None:
        self.address = ADDRESS
        self._environment = os.environ | {
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "STATE_DIR": str(state),
            "COLUMNS": "110",
            "TERM": "dumb",
        }
        self._exported = state.with_name("exported")

    def assert_prints(self, command: str, shown: str) -> None:
        command = command.replace(ADDRESS, self.address)
        run = subprocess.run(
            ["bash", "-c", f"{command}\nenv -0 >{shlex.quote(str(self._exported))}"],
            cwd=ROOT,
            env=self._environment | {"TRACEHOUSE_URL": self.address},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert_as_shown(without_cuts(run.stdout), shown)
        self._environment = dict(line.split("=", 1) for line in self._exported.read_text().split("\0") if line)


def test_the_session_with_the_command_and_curl(start_service: StartService) -> None:
    service = start_service()
    shell = Shell(service.state)
    shell.address = service.address
    [verify] = [parse(block) for block in blocks_of(SIGNATURES_PAGE, "console")]
    for command, shown in [*SESSION, *verify]:
        if not command.startswith(("tracehouse serve", ". .venv")):
            shell.assert_prints(command, shown)


def test_the_session_with_a_key(start_service: StartService, tmp_path: Path) -> None:
    shell = Shell(tmp_path / "state")
    before = start_service()
    [session] = [parse(block) for block in blocks_of(KEYS_PAGE, "console")]
    for command, shown in session:
        if command.startswith("kill %1"):
            before.terminate()
        elif command.startswith("tracehouse serve"):
            shell.address = start_service(host="0.0.0.0").address
        else:
            shell.assert_prints(command, shown)


@pytest.mark.skipif(find_spec("timm") is None, reason="needs the models extra: make demo installs it")
def test_the_demo(tmp_path: Path) -> None:
    state = tmp_path / "demo"
    environment = os.environ | {"DEMO_STATE": str(state), "PORT": "0"}
    try:
        for _ in range(2):  # the second time it finds the service and the artifacts
            run = subprocess.run(
                [sys.executable, ROOT / "examples" / "demo.py"],
                env=environment,
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
            assert_as_shown(run.stdout.replace((state / "address").read_text(), ADDRESS), DEMO)
    finally:
        os.kill(int((state / "pid").read_text()), 15)


@pytest.mark.parametrize("name", ["net.py", "gate.py", "client.py"])
def test_the_sources_are_those_of_the_examples(name: str) -> None:
    assert f"```python\n{(ROOT / 'examples' / name).read_text()}```" in README
