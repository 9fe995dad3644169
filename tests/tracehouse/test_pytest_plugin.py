"""The pytest plugin: a test of a model fails with the verdict, the cause, the line of Python and the remedy."""

import tomllib
from importlib import import_module
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

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


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    """Run these tests in a process of their own, with no plugin but this one, whatever is installed."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makepyfile(models=MODELS)

    def run(tests: str) -> pytest.RunResult:
        pytester.makepyfile(test_models=f"import random\nimport torch\nfrom models import *\n\n{tests}")
        return pytester.runpytest_subprocess("-p", "tracehouse.pytest_plugin")

    return run


def test_a_right_model_passes_and_its_report_is_there(run) -> None:
    ended = run("""
def test_right(check_trace):
    report = check_trace(Right().eval(), [torch.ones(2, 3)], dynamic={"x": {0: "batch"}}, budget_s=60)
    assert report.verdict == "verified"
    assert report.contract.methods["forward"].inputs[0].shape[0] == "batch"
""")

    ended.assert_outcomes(passed=1)


def test_a_wrong_model_fails_with_cause_line_and_remedy(run) -> None:
    ended = run("""
def test_branches(check_trace):
    check_trace(Branches().eval(), [torch.ones(1, 4)], budget_s=60)
""")

    ended.assert_outcomes(failed=1)
    ended.stdout.fnmatch_lines(
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
    ended.stdout.no_fnmatch_line("*pytest_plugin.py*")
    ended.stdout.no_fnmatch_line("*Captured log call*")


def test_a_restricted_model_fails_unless_that_is_allowed(run) -> None:
    ended = run("""
KEEPS = {"example_inputs": [torch.ones(1, 4)], "dynamic": {"x": {1: "length"}}, "budget_s": 60}


def test_all_lengths(check_trace):
    check_trace(KeepsLength().eval(), **KEEPS)


def test_one_length(check_trace):
    assert check_trace(KeepsLength().eval(), **KEEPS, allow_restricted=True).verdict == "restricted"
""")

    ended.assert_outcomes(passed=1, failed=1)
    ended.stdout.fnmatch_lines(["E       AssertionError: Trace check of KeepsLength: restricted*", "E*Remedy: *"])


def test_a_model_that_raises_fails_with_its_line(run) -> None:
    ended = run("""
def test_raises(check_trace):
    check_trace(Raises().eval(), [torch.ones(1, 4)])
""")

    ended.assert_outcomes(failed=1)
    ended.stdout.fnmatch_lines(
        ["E       AssertionError: *(model-raised)", "E           at *models.py:27", "E                   return x @ x"]
    )


def test_a_test_goes_on_as_if_nothing_had_been_checked(run) -> None:
    ended = run("""
import signal


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
""")

    ended.assert_outcomes(passed=1)


def test_a_test_that_checks_nothing_does_not_load_torch(run, pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import sys\n\n\ndef test_light(check_trace):\n    assert 'torch' not in sys.modules\n")

    pytester.runpytest_subprocess("-p", "tracehouse.pytest_plugin").assert_outcomes(passed=1)


def test_pytest_finds_the_plugin_where_the_package_is_installed() -> None:
    project = tomllib.loads((ROOT / "tracehouse" / "pyproject.toml").read_text())["project"]

    assert hasattr(import_module(project["entry-points"]["pytest11"]["tracehouse"]), "check_trace")
