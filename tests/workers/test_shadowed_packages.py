"""A project whose packages are called as ours and as those that we need, in real children."""

import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from service.domain.trace_request import State
from service.storage.database import Store
from tests.conftest import TENANT
from tests.submissions import tensor
from tests.workers.conftest import ArtifactOf, Told, Work
from tracehouse.artifact.manifest import Artifact
from tracehouse.findings.verdict import Verdict

Run = Callable[..., Told]

X = tensor([[1.0, 2.0], [3.0, 4.0]])
# As our packages are called, and some of our own modules in them.
OURS = {
    "service/__init__.py": "",
    "service/log.py": "SCALE = 3.0\n",
    "service/storage/database.py": "def factor(name):\n    return {'scale': 2.0}[name]\n",
    "workers/__init__.py": "from .worker import Worker\n",
    "workers/worker.py": """import importlib

import torch

from service.storage import database
from tracehouse.errors import ServiceError


class Worker(torch.nn.Module):
    def __init__(self):
        super().__init__()
        if database.factor("scale") != 2.0:
            raise ServiceError
        self.scale: float = importlib.import_module("service.log").SCALE

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale
""",
    "migrations/__init__.py": "from migrations.check import shift\n",
    "migrations/check.py": """import torch


@torch.jit.script
def shift(x: torch.Tensor) -> torch.Tensor:
    if x.numel() > 1000:
        return x
    return x + 1
""",
    "tracehouse/__init__.py": "",
    "tracehouse/errors.py": "class ServiceError(Exception):\n    pass\n",
    "tracehouse/eager/__init__.py": "",
    "tracehouse/eager/model.py": """import torch

from migrations import shift
from workers import Worker

from .. import errors
from ..typing import Image


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.worker = Worker()

    def forward(self, x: Image) -> torch.Tensor:
        from service import log

        assert log.SCALE == 3.0
        return shift(self.worker(x))


class Scripted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.worker = Worker()

    def forward(self, x: Image) -> torch.Tensor:
        if x.sum() > 0:
            return shift(self.worker(x))
        return x


class Branches(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.worker = Worker()

    def forward(self, x):
        if x.sum() > 0:
            return self.worker(x)
        return x
""",
    "tracehouse/typing.py": "import torch\n\nImage = torch.Tensor\n",
}
# As libraries are called that torch and we need.
PROJECT = {
    **OURS,
    "pydantic/__init__.py": "BaseModel = 'mine'\n",
    "orjson.py": "",
    "sympy/__init__.py": "",
    "networkx.py": "",
    "typing_extensions.py": "Self = None\n",
}


def spec(entrypoint: str, **members: Any) -> dict[str, Any]:
    source = {"files": PROJECT, "entrypoint": f"tracehouse.eager.model:{entrypoint}"}
    return {"model": "net", "source": source, "example_inputs": [X], "check": {"budget_s": 2}, **members}


def answer_of(kept: Artifact, store: Store, x: torch.Tensor) -> torch.Tensor:
    with store.blobs.open(kept.archive.digest) as file:
        answer: torch.Tensor = torch.jit.load(io.BytesIO(file.read()))(x)
    return answer


def test_it_is_traced_and_verified(artifact: ArtifactOf, store: Store) -> None:
    kept = artifact(spec("Model"))

    assert kept.check.verdict is Verdict.VERIFIED, kept.check
    assert answer_of(kept, store, torch.ones(2, 2)).tolist() == [[4.0, 4.0], [4.0, 4.0]]


def test_it_is_scripted_and_verified(artifact: ArtifactOf, store: Store) -> None:
    kept = artifact(spec("Scripted", mode="script"))

    assert kept.check.verdict is Verdict.VERIFIED, kept.check
    assert answer_of(kept, store, -torch.ones(2, 2)).tolist() == [[-1.0, -1.0], [-1.0, -1.0]]


def test_it_is_scripted_where_a_trace_does_not_keep_its_branch(artifact: ArtifactOf) -> None:
    assert artifact(spec("Branches", mode="auto")).check.verdict is Verdict.VERIFIED


def test_it_comes_as_a_zip_and_is_exported(work: Work, store: Store) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path, text in PROJECT.items():
            archive.writestr(path, text)
    source = {"file": "project.zip", "entrypoint": "tracehouse.eager.model:Worker"}
    # Without the layers of the check: what is shown is that what the zip brings is found, and exported.
    given = spec("Worker", options={"exportability": True}, check={"probes": "off"}) | {"source": source}
    request = work(given, {"project.zip": packed.getvalue()})

    assert request.state is State.SUCCEEDED, request.failure
    kept = store.artifacts.get(TENANT, request.artifacts[0].digest)
    assert kept.check.verdict is Verdict.VERIFIED
    assert kept.exportability is not None
    assert kept.exportability.readiness == "ready", kept.exportability


def test_it_runs_without_a_trace(work: Work) -> None:
    request = work(spec("Model", mode="eager"))

    assert request.state is State.SUCCEEDED, request.failure


def test_a_finding_names_the_line_of_the_sources_own_module(run: Run) -> None:
    told = run(spec("Branches"))

    finding = next(finding for finding in told.traced.check.findings if finding.source == "if x.sum() > 0:")
    text = PROJECT["tracehouse/eager/model.py"].splitlines()
    assert (finding.file, finding.line) == (
        "tracehouse/eager/model.py",
        text.index("class Branches(torch.nn.Module):") + 7,
    )
    assert json.loads(told.files["sources"]) == {finding.file: PROJECT[finding.file]}


def test_a_line_that_raises_is_named_in_its_own_file(run: Run) -> None:
    files = {**PROJECT, "service/log.py": "\n1 / 0\n"}
    failure = run(spec("Model") | {"source": {"files": files, "entrypoint": "tracehouse.eager.model:Model"}}).failure

    assert (failure.slug, failure.facts["file"], failure.facts["line"]) == ("init-failed", "service/log.py", 2)


@pytest.mark.parametrize("moved", [{}, {"net.py": "from tracehouse.eager.model import Branches\n"}])
def test_the_file_of_a_counterexample_shows_the_difference(
    artifact: ArtifactOf, store: Store, tmp_path: Path, moved: dict[str, str]
) -> None:
    entrypoint = "net:Branches" if moved else "tracehouse.eager.model:Branches"
    source = {"files": {**OURS, **moved}, "entrypoint": entrypoint}
    kept = artifact(spec("Branches", accept_unsound=True) | {"source": source})
    assert kept.check.verdict is Verdict.REJECTED
    with store.blobs.open(kept.counterexamples[0].test.digest) as file:
        (tmp_path / "test_it.py").write_bytes(file.read())

    command = [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ".", "test_it.py"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=100)
    assert ran.returncode == 1
    assert "AssertionError: Tensor-likes are not" in ran.stdout, ran.stdout + ran.stderr
