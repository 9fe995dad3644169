"""`tracehouse doctor`: what does not work is said with what to do."""

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from service.cli import app
from service.sandbox import torch_probe
from service.sandbox.torch_probe import TorchCapabilities
from workers.programs.doctor import find_torchvision_fault

FAULT = "RuntimeError: operator torchvision::nms does not exist"


def install_torchvision(folder: Path, body: str) -> None:
    """Put a package of this name where Python finds it."""
    (folder / "torchvision").mkdir()
    (folder / "torchvision" / "__init__.py").write_text(body)
    (folder / "torchvision-0.21.0.dist-info").mkdir()
    (folder / "torchvision-0.21.0.dist-info" / "METADATA").write_text("Name: torchvision\nVersion: 0.21.0\n")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delitem(sys.modules, "torchvision", raising=False)
    return tmp_path


def test_a_torchvision_whose_operators_do_not_load_is_found(folder: Path) -> None:
    install_torchvision(folder, "raise RuntimeError('operator torchvision::nms does not exist')\n")

    assert find_torchvision_fault() == FAULT


def test_a_torchvision_that_loads_is_no_fault(folder: Path) -> None:
    install_torchvision(folder, "")

    assert find_torchvision_fault() is None


@pytest.mark.parametrize(("fault", "mark"), [(FAULT, "WARN"), (None, "ok")])
def test_the_doctor_says_whether_what_timm_imports_can_be_imported(
    folder: Path, monkeypatch: pytest.MonkeyPatch, fault: str | None, mark: str
) -> None:
    install_torchvision(folder, "")
    answer = TorchCapabilities(torch="2.13.0", devices=["cpu"], traces=True, torchvision_fault=fault)
    monkeypatch.setattr(torch_probe, "ask", lambda *_: answer)

    ended = CliRunner().invoke(app, ["doctor"])

    told = " ".join(ended.stdout.partition("timm, transformers")[2].split())
    assert f"{mark:<5} timm, transformers" in ended.stdout
    assert (f"torchvision 0.21.0 cannot be imported, and timm imports it: {FAULT}" in told) == (fault is not None)
    assert ("a torchvision that was built for torch 2.13.0 is installed" in told) == (fault is not None)
