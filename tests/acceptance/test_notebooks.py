"""Live models of a Jupyter notebook, in a real kernel: cells, files, timm and Lightning, on a real service."""

import json
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.acceptance.conftest import ANSWER_S, Service
from tests.acceptance.test_client import PROJECT, write_files

# torchvision, which both packages import, may not load beside a CPU build of torch without it.
OPERATORS = Path(__file__).parents[2] / "examples" / "models" / "torchvision_operators.py"
TRAINS = """
optimiser = torch.optim.SGD([one for one in model.parameters() if one.requires_grad], 0.1)
model(example).sum().backward()
optimiser.step()
model.eval();
"""
CELL = """
import torch

FACTOR = 2.0

def halve(x):
    return x / FACTOR

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(2, 3)

    def forward(self, x):
        return halve(self.linear(x))
"""
LIGHTNING = """
import torchvision_operators
import pytorch_lightning as lightning, torch
from torch.utils.data import DataLoader, TensorDataset

class Net(lightning.LightningModule):
    def __init__(self, width=8):
        super().__init__()
        self.save_hyperparameters()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, width), torch.nn.ReLU(), torch.nn.Linear(width, 2))

    def forward(self, x):
        return self.layers(x)

    def training_step(self, batch, number):
        x, y = batch
        return torch.nn.functional.cross_entropy(self(x), y)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)
"""
FITS = """
data = DataLoader(TensorDataset(torch.randn(16, 4), torch.randint(0, 2, (16,))), batch_size=8)
quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
lightning.Trainer(max_epochs=1, accelerator="cpu", **quiet).fit(model, data)
model.eval();
"""
TUNED = """
import torchvision_operators
import timm, torch

model, example = timm.create_model("test_resnet", num_classes=10), torch.randn(2, 3, 32, 32)
model.requires_grad_(False)
model.reset_classifier(3)
"""
MODELS = {
    "cell": [CELL, "model, example = Net(), torch.ones(1, 2)", TRAINS],
    "project": [
        "import torch\nfrom net.blocks import Block",
        "model, example = torch.nn.Sequential(Block(4), Block(4)), torch.ones(2, 4)",
        TRAINS,
    ],
    "timm": [TUNED, TRAINS],
    "lightning": [LIGHTNING, "model, example = Net(), torch.randn(1, 4)", FITS],
}
SERVED = """
import json

trace.download("net.pt")
served, own = torch.jit.load("net.pt").state_dict(), model.state_dict()
with open("report.html", "w") as report:
    report.write(trace.report())
with torch.no_grad():
    agrees = torch.allclose(trace.infer(example), model(example), rtol=1e-5, atol=1e-5)
pairs = [(served[name].numpy(), own[name].numpy()) for name in own]
alike = all(one.tobytes() == other.tobytes() for one, other in pairs)
print(json.dumps({"same weights": alike, "same answer": agrees}))
"""


def run_notebook(cells: list[str], folder: Path) -> Any:
    """Run the cells in a kernel that works in the folder, and return the notebook with what they show."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
    there = {"metadata": {"path": folder}}
    NotebookClient(notebook, timeout=ANSWER_S, kernel_name="python3", resources=there).execute()
    return notebook


def outputs(notebook: Any, cell: int) -> dict[str, Any]:
    """What a cell shows at last, and what it prints."""
    found: dict[str, Any] = {}
    for output in notebook.cells[cell].outputs:
        found |= output.get("data", {})
        found["text"] = found.get("text", "") + output.get("text", "")
    return found


@pytest.mark.parametrize("kind", MODELS)
def test_a_trained_model_is_verified_in_three_lines(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    if kind == "timm" and find_spec("timm") is None:
        pytest.skip("needs the models extra: make demo installs it")
    needs = "[]" if kind in ("cell", "project") else f"[{OPERATORS.stem!r}]"
    three_lines = (
        "import tracehouse\nclient = tracehouse.Client()\n"
        f"trace = client.trace(model, example, name='notebook-{kind}', budget_s=120, imports={needs})"
    )
    monkeypatch.setenv("TRACEHOUSE_URL", service.address)
    write_files(tmp_path, PROJECT)
    shutil.copy(OPERATORS, tmp_path)
    notebook = run_notebook([*MODELS[kind], three_lines, "trace", SERVED], tmp_path)
    shown, printed = outputs(notebook, -2), outputs(notebook, -1)

    assert f"verified, model notebook-{kind}:1" in shown["text/plain"]
    assert ">verified</b>" in shown["text/html"]
    assert "FP32 [batch, " in shown["text/html"]
    assert json.loads(printed["text"]) == {"same weights": True, "same answer": True}
    assert "verified" in (tmp_path / "report.html").read_text()


def test_a_notebook_shows_the_line_at_fault_and_the_remedy(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = (
        "import torch, tracehouse\nclass Gate(torch.nn.Module):\n    def forward(self, x):\n"
        "        if x.sum() > 0:\n            return x * 2\n        return x - 1"
    )
    monkeypatch.setenv("TRACEHOUSE_URL", service.address)
    notebook = run_notebook(
        [gate, "tracehouse.Client().trace(Gate().eval(), torch.ones(1, 4), name='notebook-gate')"], tmp_path
    )
    rejected = outputs(notebook, 1)

    assert ">rejected</b>" in rejected["text/html"]
    assert "if x.sum() &gt; 0:" in rejected["text/html"]
    assert "torch.where(x.sum() &gt; 0, ..., ...)" in rejected["text/html"]
