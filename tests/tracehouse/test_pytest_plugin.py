"""The pytest plugin: a test of a model fails with the verdict, the cause, the line of Python and the remedy."""

import os
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODELS = """
import torch


class Right(torch.nn.Module):
    def forward(self, x):
        return x.relu()


class Branches(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.key = lambda x: x.sum() > 0  # no pickle holds it

    def forward(self, x):
        if self.key(x):
            return x * 2
        return x - 1


class KeepsLength(torch.nn.Module):
    def forward(self, x):
        return x + torch.arange(int(x.shape[1]))


class Raises(torch.nn.Module):
    def forward(self, x):
        return x @ x
"""


TESTS = """
import random
import signal

import torch

from models import *

KEEPS = {"example_inputs": [torch.ones(1, 4)], "dynamic": {"x": {1: "length"}}, "budget_s": 60}


def test_right(check_trace):
    report = check_trace(Right().eval(), [torch.ones(2, 3)], dynamic={"x": {0: "batch"}}, budget_s=60)
    assert report.verdict == "verified"
    assert report.contract.methods["forward"].inputs[0].shape[0] == "batch"


def test_branches(check_trace):
    check_trace(Branches().eval(), [torch.ones(1, 4)], budget_s=60)


def test_all_lengths(check_trace):
    check_trace(KeepsLength().eval(), **KEEPS)


def test_one_length(check_trace):
    assert check_trace(KeepsLength().eval(), **KEEPS, allow_restricted=True).verdict == "restricted"


def test_raises(check_trace):
    check_trace(Raises().eval(), [torch.ones(1, 4)])


def test_state(check_trace):
    random.seed(1), torch.manual_seed(1)
    drawn = random.random(), float(torch.rand(()))
    random.seed(1), torch.manual_seed(1)
    model = Right()
    signal.setitimer(signal.ITIMER_REAL, 3600)  # as pytest-timeout does
    check_trace(model, [torch.ones(1, 2)], budget_s=60)
    assert (random.random(), float(torch.rand(()))) == drawn
    assert model.training
    assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
    signal.setitimer(signal.ITIMER_REAL, 0)
"""


def run(directory: Path) -> list[str]:
    """Run the tests of this directory in a process of their own, with no plugin but this one, whatever is installed;
    return the lines that are printed."""
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "pytest", "-rA", "-p", "tracehouse.pytest_plugin"]
    ended = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    return ended.stdout.splitlines()


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What is printed about TESTS: they run in one process, for it takes seconds to load torch."""
    directory = tmp_path_factory.mktemp("models")
    (directory / "models.py").write_text(MODELS.lstrip())
    (directory / "test_models.py").write_text(TESTS.lstrip())
    return run(directory)


def outcomes(lines: list[str]) -> dict[str, str]:
    """The outcome of each test, by its name."""
    ended = [re.match(r"(PASSED|FAILED|ERROR) \S+?::(\w+)", line) for line in lines]
    return {one[2]: one[1] for one in ended if one}


def failure_of(test: str, lines: list[str]) -> pytest.LineMatcher:
    """What is printed about the failure of a test."""
    begin = next(place for place, line in enumerate(lines) if re.fullmatch(rf"_+ {test} _+", line))
    end = next(place for place, line in enumerate(lines) if place > begin and re.match(r"(_{3,}|={3,}) ", line))
    return pytest.LineMatcher(lines[begin:end])


def test_a_right_model_passes_and_its_report_is_there(lines: list[str]) -> None:
    assert outcomes(lines)["test_right"] == "PASSED"


def test_a_wrong_model_fails_with_cause_line_and_remedy(lines: list[str]) -> None:
    assert outcomes(lines)["test_branches"] == "FAILED"
    failure = failure_of("test_branches", lines)
    failure.fnmatch_lines(
        [
            ">       check_trace(Branches().eval(), [[]torch.ones(1, 4)[]], budget_s=60)",
            "E       AssertionError: Trace check of Branches: rejected, in this process alone",
            "E           ✗ baked-value at *models.py:15: The trace keeps a value that Python read out of a tensor",
            "E                   if self.key(x):",
            "E               Remedy: *torch.where*",
            "E       Counterexamples",
            "E           0. forward(x = [[][[]*",
        ]
    )
    failure.no_fnmatch_line("*pytest_plugin.py*")
    failure.no_fnmatch_line("*Captured log call*")


def test_a_restricted_model_fails_unless_that_is_allowed(lines: list[str]) -> None:
    assert outcomes(lines)["test_all_lengths"] == "FAILED"
    assert outcomes(lines)["test_one_length"] == "PASSED"
    failure_of("test_all_lengths", lines).fnmatch_lines(
        ["E       AssertionError: Trace check of KeepsLength: restricted*", "E*Remedy: *"]
    )


def test_a_model_that_raises_fails_with_its_line(lines: list[str]) -> None:
    assert outcomes(lines)["test_raises"] == "FAILED"
    failure_of("test_raises", lines).fnmatch_lines(
        ["E       AssertionError: *(model-raised)", "E           at *models.py:27", "E                   return x @ x"]
    )


def test_a_test_goes_on_as_if_nothing_had_been_checked(lines: list[str]) -> None:
    assert outcomes(lines)["test_state"] == "PASSED"


def test_a_test_that_checks_nothing_does_not_load_torch(tmp_path: Path) -> None:
    text = "import sys\n\n\ndef test_light(check_trace):\n    assert 'torch' not in sys.modules\n"
    (tmp_path / "test_light.py").write_text(text)

    assert outcomes(run(tmp_path)) == {"test_light": "PASSED"}


def test_pytest_finds_the_plugin_where_the_package_is_installed() -> None:
    project = tomllib.loads((ROOT / "tracehouse" / "pyproject.toml").read_text())["project"]

    assert hasattr(import_module(project["entry-points"]["pytest11"]["tracehouse"]), "check_trace")
