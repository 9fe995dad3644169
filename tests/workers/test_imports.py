"""Projects as people write them, in real children: their folders, their data, and packages that want a home."""

import io
import zipfile
from typing import Any

import pytest

from tests.submissions import tensor
from tests.workers.conftest import ArtifactOf, Work
from tracehouse.findings.verdict import Verdict

X = tensor([[1.0, 2.0], [3.0, 4.0]])

NET = """import importlib.resources
import json
import os
import sys
import tempfile
from pathlib import Path

import numpy
import torch

sys.path.append(os.path.join(os.path.dirname(__file__), "..", "..", "core"))

from layers import shift

from .parts import Scale

HERE = Path(__file__).parent

# As packages do that keep settings and caches.
settings = Path.home() / ".config" / "package" / "settings.json"
settings.parent.mkdir(parents=True)
settings.write_text(json.dumps({"offset": 0.5}))
with tempfile.TemporaryDirectory() as folder:
    numpy.save(os.path.join(folder, "array.npy"), numpy.ones(2, dtype=numpy.float32))
    ONES = numpy.load(os.path.join(folder, "array.npy"))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        with open(HERE / "config.json") as file:
            self.scale = Scale(json.load(file)["scale"])
        words = importlib.resources.files("pkg").joinpath("data/words.txt").read_text().split()
        self.offset = len(words) + json.loads(settings.read_text())["offset"] + float(ONES[0])

    def forward(self, x):
        return shift(self.scale(x), self.offset)
"""
PARTS = """import torch


class Scale(torch.nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return x * self.factor
"""
PROJECT = {
    "core/layers.py": "def shift(x, by):\n    return x + by\n",
    "pkg/__init__.py": "",
    "pkg/data/words.txt": "one two\n",
    "pkg/models/__init__.py": "",
    "pkg/models/config.json": '{"scale": 3.0}',
    "pkg/models/net.py": NET,
    "pkg/models/parts.py": PARTS,
}


def zipped(files: dict[str, str]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path, content in files.items():
            archive.writestr(path, content)
    return packed.getvalue()


def request(entrypoint: str, **members: Any) -> dict[str, Any]:
    return {
        "model": "net",
        "source": {"file": "project.zip", "entrypoint": entrypoint},
        "example_inputs": [X],
        **members,
    }


def test_a_project_with_folders_data_and_a_home_is_traced(artifact: ArtifactOf) -> None:
    made = artifact(request("pkg/models/net.py:Net"), {"project.zip": zipped(PROJECT)})

    assert made.check.verdict is Verdict.VERIFIED, made.check.findings
    assert made.entrypoint == "pkg.models.net:Net"


def test_files_of_the_machine_stay_closed_and_the_remedy_says_where_to_put_them(work: Work) -> None:
    net = "import torch\nopen('/etc/hostname')\nclass Net(torch.nn.Module):\n    pass\n"
    failure = work(request("net:Net"), {"project.zip": zipped({"net.py": net})}).failure

    assert failure is not None
    assert failure.slug == "source-raised"
    assert failure.facts["line"] == 2
    assert "send files in the source" in str(failure.facts["remedy"])


def test_what_a_model_writes_is_limited_as_its_memory_is(work: Work) -> None:
    net = "from pathlib import Path\nfile = open(Path.home() / 'much', 'wb')\nwhile True: file.write(bytes(2**24))\n"
    failure = work(request("net:Net"), {"project.zip": zipped({"net.py": net})}, memory_mib=2048).failure

    assert failure is not None
    assert failure.slug == "limit-exceeded"
    assert failure.facts["limit"] == "memory"


LOGS = """import absent_logger
import torch
from absent_augmentations.core import Transform


class Crop(Transform):
    pass


class Net(torch.nn.Module):
    def forward(self, x):
        if x.max() > 100:
            absent_logger.log(x)
        return x * 2
"""


def stubbing(text: str) -> dict[str, Any]:
    stubs = ["absent_logger", "absent_augmentations", "absent_too", "numpy"]
    source = {"files": {"net.py": text}, "entrypoint": "net:Net", "stub_missing": stubs}
    return {"model": "net", "source": source, "example_inputs": [X]}


def test_a_model_that_only_imports_missing_packages_is_traced_and_told_of_them(artifact: ArtifactOf) -> None:
    made = artifact(stubbing(LOGS.replace("x.max() > 100", "not isinstance(x, torch.Tensor)")))

    stubbed = [finding.evidence["package"] for finding in made.check.findings if finding.kind == "stubbed-package"]
    assert stubbed == ["absent_augmentations", "absent_logger"]
    assert made.check.verdict is Verdict.VERIFIED


@pytest.mark.parametrize("condition", ["x is not None", "x.max() > 100"], ids=["on the example", "on other inputs"])
def test_a_missing_package_that_the_model_uses_is_named(work: Work, condition: str) -> None:
    failure = work(stubbing(LOGS.replace("x.max() > 100", condition))).failure

    assert failure is not None
    assert failure.slug == "stubbed-package-used"
    assert failure.facts["package"] == "absent_logger"
    assert failure.facts["line"] == 13
