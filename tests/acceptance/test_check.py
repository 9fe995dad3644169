"""`tracehouse check` as a person or a CI system runs it: no service, and nothing that stays."""

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

import psutil
import pytest
import yaml

from tests.acceptance.conftest import ANSWER_S, TRACEHOUSE
from tests.conftest import wait_until
from tests.sessions import assert_as_shown, blocks_of, parse, without_cuts
from tests.submissions import text

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "check.md").read_text()
[RECIPE] = [workflow for block in blocks_of(PAGE, "yaml") if "jobs" in (workflow := yaml.safe_load(block))]
[HOOK] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A repository with the models that the page checks."""
    here = tmp_path / "repository"
    (here / "examples").mkdir(parents=True)
    for name in ("net.py", "gate.py"):
        shutil.copy(ROOT / "examples" / name, here / "examples")
    (tmp_path / "temporary").mkdir()
    return here


@pytest.fixture
def environment(here: Path) -> dict[str, str]:
    """Its temporary files can be seen."""
    path = f"{TRACEHOUSE.parent}:{os.environ['PATH']}"
    return os.environ | {"PATH": path, "TMPDIR": str(here.parent / "temporary"), "COLUMNS": "110", "TERM": "dumb"}


def left_in(here: Path) -> list[str]:
    """What is there beside the models, temporary files included."""
    places = (*here.rglob("*"), *(here.parent / "temporary").rglob("*"))
    return sorted(path.name for path in places if path.is_file() and path.parent.name != "examples")


def test_the_sessions_of_the_page(here: Path, environment: dict[str, str]) -> None:
    steps = [step for block in blocks_of(PAGE, "console") for step in parse(block)]
    assert steps
    for command, shown in steps:
        ran = subprocess.run(
            ["bash", "-c", command],
            cwd=here, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        assert_as_shown(without_cuts(ran.stdout), shown)

    assert left_in(here) == []


def test_a_terminal_shows_the_layers_with_what_is_left_of_the_budget(here: Path, environment: dict[str, str]) -> None:
    watching, terminal = pty.openpty()
    with os.fdopen(watching, "rb", buffering=0) as shown:
        command = [TRACEHOUSE, "check", "examples/net.py:Net", "--input", "1x2"]
        of_terminal = environment | {"TERM": "xterm", "COLUMNS": "200"}
        checking = subprocess.Popen(command, cwd=here, env=of_terminal, stdout=subprocess.DEVNULL, stderr=terminal)
        os.close(terminal)
        written = "".join(iter(lambda: read_terminal(shown), ""))

    assert checking.wait(ANSWER_S) == 0
    assert re.search(r"checked forward, 8 of 8, at most [0-9]+ s of the budget left: ", written)


def read_terminal(shown: IO[bytes]) -> str:
    """What a program writes next; nothing once it has ended, which Linux reports as an error."""
    with suppress(OSError):
        return shown.read(65536).decode(errors="replace")
    return ""


def test_the_test_of_the_page(here: Path, environment: dict[str, str]) -> None:
    [test] = [block for block in blocks_of(PAGE, "python") if "check_trace" in block]
    (here / "examples" / "test_net.py").write_text(test)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "tracehouse.pytest_plugin", "--rootdir=.", "test_net.py"],
        cwd=here / "examples",
        env=environment | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert (ran.returncode, "1 passed" in ran.stdout) == (0, True), ran.stdout


def test_the_hook_of_pre_commit_checks_the_model_of_its_arguments(here: Path, environment: dict[str, str]) -> None:
    [config] = [parsed for block in blocks_of(PAGE, "yaml") if "repos" in (parsed := yaml.safe_load(block))]
    [chosen] = config["repos"][0]["hooks"]
    assert chosen["id"] == HOOK["id"]
    # As pre-commit runs it: the entry, the arguments, and no file names.
    command = [*HOOK["entry"].split(), *chosen["args"]]

    assert HOOK["pass_filenames"] is False
    assert subprocess.run(command, cwd=here, env=environment, capture_output=True, check=False).returncode == 0
    shutil.copy(here / "examples" / "gate.py", here / "examples" / "net.py")
    (here / "examples" / "net.py").write_text((here / "examples" / "net.py").read_text().replace("Gate", "Net"))
    assert subprocess.run(command, cwd=here, env=environment, capture_output=True, check=False).returncode == 3


def steps_of(workflow: Any) -> Iterator[dict[str, Any]]:
    """Yield the steps of the only job, with the values of its matrix."""
    [job] = workflow["jobs"].values()
    [values] = job["strategy"]["matrix"]["include"]
    for step in job["steps"]:
        text = json.dumps(step)
        for name, value in values.items():
            text = text.replace(f"${{{{ matrix.{name} }}}}", value)
        yield json.loads(text)


def test_the_recipe_for_ci_writes_the_files_that_its_later_steps_upload(
    here: Path, environment: dict[str, str]
) -> None:
    steps = {step.get("name", step.get("uses")): step for step in steps_of(RECIPE)}
    # Actions runs a step with these options of bash.
    ran = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", steps["Check"]["run"]],
        cwd=here, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert ran.returncode == 0, ran.stderr
    uploaded = steps["Show the findings in the pull request"]["with"]["sarif_file"]
    kept = steps["Keep the report"]["with"]["path"].split()
    assert left_in(here) == sorted([uploaded, *kept])
    [result] = json.loads((here / uploaded).read_text())["runs"][0]["results"]
    place = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert (result["ruleId"], result["level"], place) == ("weights-not-sent", "note", "examples/net.py")


@pytest.mark.parametrize(
    "stop", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=["Ctrl-C", "SIGTERM", "closed terminal"]
)
def test_one_that_is_stopped_leaves_nothing_and_has_opened_no_port(
    here: Path, environment: dict[str, str], stop: signal.Signals
) -> None:
    (here / "examples" / "hangs.py").write_text(text("hangs_aloud"))
    log = here.parent / "log"
    with log.open("wb") as printed:
        running = subprocess.Popen(
            [TRACEHOUSE, "check", "examples/hangs.py:Net", "--input", "1x2"],
            cwd=here, env=environment, stdout=printed, stderr=printed, start_new_session=True,
        )  # fmt: skip
    wait_until(lambda: b"here" in log.read_bytes())
    family = [psutil.Process(running.pid), *psutil.Process(running.pid).children(recursive=True)]
    ports = [connection for process in family for connection in process.net_connections("inet")]
    running.send_signal(stop)

    assert running.wait(ANSWER_S) == 130
    assert ports == []
    assert log.read_text().splitlines() == ["here", "Cancelled."]
    assert left_in(here) == []
    assert [*Path(environment["TMPDIR"]).iterdir()] == []
    wait_until(lambda: not any(process.is_running() for process in family))


@pytest.mark.skipif(find_spec("timm") is None, reason="needs the models extra: make demo installs it")
def test_a_model_of_an_installed_package(here: Path, environment: dict[str, str]) -> None:
    ran = subprocess.run(
        [TRACEHOUSE, "check", "timm:create_model", "--arg", "resnet18", "--arg", "num_classes=10",
         "--input", "1x3x64x64", "--sarif", "resnet.sarif"],
        cwd=here,
        env=environment | {"PRELOAD": str(ROOT / "examples" / "models" / "preload.py")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert ran.returncode == 0, ran.stderr
    assert "│ forward │ output │ output │ FP32     │ batch x 10" in ran.stdout
    run = json.loads((here / "resnet.sarif").read_text())["runs"][0]
    assert run["results"] == []
    # On a busy machine there are more: what was left out of the check.
    notifications = run["invocations"][0]["toolExecutionNotifications"]
    assert "weights-not-sent" in {one["associatedRule"]["id"] for one in notifications}
