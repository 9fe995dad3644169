"""Counterexamples: arrays that numpy reads, and a pytest file that fails with torch alone until the model is mended."""

import io
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

from service.storage.database import Store
from tests.submissions import tensor
from tests.workers.conftest import ArtifactOf
from tracehouse.artifact.manifest import Artifact
from tracehouse.findings.verdict import Verdict

X = tensor([[1.0, 2.0], [3.0, 4.0]])
OTHER = tensor([[1.0, 2.0], [3.0, -40.0]])
BRANCHES = """import torch


class Net(torch.nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x + 1
        return x - 1
"""
BRANCH = "        if x.sum() > 0:\n            return x + 1\n        return x - 1\n"
MENDED = "        return torch.where(x.sum() > 0, x + 1, x - 1)\n"


# It has imported what takes longest, and so each test is run in a fork of it.
RUNS_TESTS = """
import json, os, sys
import pytest
import torch._dynamo

for line in sys.stdin:
    folder, file, output = json.loads(line)
    pid = os.fork()
    if pid == 0:
        os.chdir(folder)
        written = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(written, 1)
        os.dup2(written, 2)
        code = pytest.main(["-q", "-p", "no:cacheprovider", "--rootdir", ".", file])
        sys.stdout.flush()
        os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


def submitted(source: str, **members: Any) -> dict[str, Any]:
    inline = {"files": {"net.py": source}, "entrypoint": "net:Net"}
    given = {"model": "net", "source": inline, "example_inputs": [X], "accept_unsound": True, **members}
    return {**given, "check": {"budget_s": 2, **given.get("check", {})}}


def read(store: Store, digest: str) -> bytes:
    with store.blobs.open(digest) as file:
        return file.read()


class PytestProcess:
    """A process that finds torch, and nothing of the service, and runs files of tests in forks of itself."""

    def __init__(self) -> None:
        self._popen = subprocess.Popen(
            [sys.executable, "-P", "-c", RUNS_TESTS],
            cwd="/",
            # Without bytecode: a test that is mended within a second may be as long as before.
            env=os.environ
            | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "", "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, file: Path) -> tuple[int, str]:
        """The exit status, and what was printed."""
        output = file.with_suffix(".output")
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        print(json.dumps([str(file.parent), file.name, str(output)]), file=self._popen.stdin, flush=True)
        return int(self._popen.stdout.readline()), output.read_text()

    def close(self) -> None:
        self._popen.communicate()


class Shown:
    """An artifact's first counterexample, in a folder of its own."""

    def __init__(self, kept: Artifact, store: Store, folder: Path, process: PytestProcess) -> None:
        self.kept = kept
        self.process = process
        self.text = read(store, kept.counterexamples[0].test.digest).decode()
        self.arrays = np.load(io.BytesIO(read(store, kept.counterexamples[0].arrays.digest)), allow_pickle=False)
        self.folder = folder

    def passes(self, text: str | None = None) -> bool:
        """Whether its test does; it has no other faults."""
        code = self.run(text)
        assert code in (0, 1), self.output
        assert "error" not in self.output.splitlines()[-1], self.output
        return code == 0

    def run(self, text: str | None = None) -> int:
        file = self.folder / "test_counterexample_0.py"
        file.write_text(text or self.text)
        code, self.output = self.process.run(file)
        return code

    def shows_it(self) -> bool:
        """It fails, and by the difference."""
        return not self.passes() and "AssertionError: Tensor-likes are not" in self.output


@pytest.fixture(scope="module")
def process() -> Iterator[PytestProcess]:
    process = PytestProcess()
    yield process
    process.close()


@pytest.fixture
def shown(artifact: ArtifactOf, store: Store, tmp_path: Path, process: PytestProcess) -> Any:
    def shown(spec: dict[str, Any], files: dict[str, bytes] | None = None) -> Shown:
        folder = tmp_path / "shown"
        folder.mkdir()
        return Shown(artifact(spec, files), store, folder, process)

    return shown


def test_the_arrays_hold_the_inputs_and_both_answers(shown: Any) -> None:
    found = shown(submitted(BRANCHES, check={"check_inputs": [OTHER]}))

    given, eager, artifact = (found.arrays[f"{name}"] for name in ("input.x", "eager.output", "artifact.output"))
    assert given.sum() <= 0
    assert (eager == given - 1).all()
    assert (artifact == given + 1).all()


def test_the_test_fails_and_passes_once_the_model_is_mended(shown: Any) -> None:
    found = shown(submitted(BRANCHES))

    assert found.kept.check.verdict is Verdict.REJECTED
    assert not re.search(r"(import|from) (service|workers|tracehouse)", found.text)
    assert found.shows_it(), found.output
    mended = found.text.replace(BRANCH, MENDED)
    assert mended != found.text
    assert found.passes(mended), found.output


ENCODES = """import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
        self.encoder = torch.nn.TransformerEncoder(layer, 1)

    def forward(self, x, padding):
        y = self.encoder(x, src_key_padding_mask=padding)
        if padding.any():
            y = y * 2
        return y
"""


def test_a_model_that_looks_at_its_mask_runs_without_fast_paths_in_the_test(shown: Any) -> None:
    x = {"datatype": "FP32", "shape": [2, 3, 4], "random": {"seed": 0}}
    padding = {"datatype": "BOOL", "shape": [2, 3], "data": [False] * 6}
    found = shown(submitted(ENCODES, example_inputs=[x, padding]))

    assert found.kept.contract.without_fast_paths
    assert found.shows_it(), found.output
    branch = "        if padding.any():\n            y = y * 2\n        return y\n"
    mended = found.text.replace(branch, "        return torch.where(padding.any(), y * 2, y)\n")
    assert mended != found.text
    assert found.passes(mended), found.output


RETURNS_MORE = """import torch
from dataclasses import dataclass


@dataclass
class Output:
    y: torch.Tensor
    more: dict


class Net(torch.nn.Module):
    def forward(self, x):
        {line}
"""
KEEPS_A_NUMBER = RETURNS_MORE.format(line="return Output(x + 1, {'n': None, 'sum': float(x.sum())})")
BAKES_BESIDE_IT = RETURNS_MORE.format(line="return Output(x * float(x.sum()), {'n': None, 'size': x.shape[0]})")


def test_a_constant_that_is_another_one_is_shown(shown: Any) -> None:
    found = shown(submitted(KEEPS_A_NUMBER))

    assert found.kept.check.verdict is Verdict.REJECTED
    assert not found.passes()
    assert "assert_same" in found.output
    assert found.passes(found.text.replace("float(x.sum())", "2.0")), found.output


def test_a_tensor_beside_constants_is_shown(shown: Any) -> None:
    found = shown(submitted(BAKES_BESIDE_IT))

    assert found.kept.check.verdict is Verdict.REJECTED
    assert found.shows_it(), found.output
    assert found.passes(found.text.replace("x * float(x.sum())", "x * x.sum()")), found.output


BRANCHES_IN_A_FUNCTION = """import torch


class Shift(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        if x.sum() > 0:
            return x + 1
        return x - 1

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Net(torch.nn.Module):
    def forward(self, x):
        return Shift.apply(x)
"""


def test_the_test_records_custom_autograd_functions_as_the_service_does(shown: Any) -> None:
    """torch's own trace calls them anew each time, so it would not fail."""
    found = shown(submitted(BRANCHES_IN_A_FUNCTION))

    assert found.shows_it(), found.output
    assert found.passes(found.text.replace(BRANCH, MENDED)), found.output


CACHES = """import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.cache = {}

    def forward(self, x):
        key = x.shape[1]
        if key not in self.cache:
            self.cache[key] = x.mean()
        return x + self.cache[key]
"""


def test_of_hidden_state_it_shows_that_a_call_leaves_something_behind(shown: Any) -> None:
    found = shown(submitted(CACHES))

    assert found.shows_it(), found.output
    assert "hidden-state" in found.text
    mended = found.text.replace("return x + self.cache[key]", "return x + x.mean()")
    assert mended != found.text
    assert found.passes(mended), found.output


def test_it_begins_with_the_cause_and_not_with_torchs_warning(shown: Any) -> None:
    found = shown(submitted(BRANCHES))

    about = found.text.partition('"""\n\n')[0]
    assert "baked-value (net.py, line 6: if x.sum() > 0:)" in about
    assert "tracer-warning" not in about


def test_a_finding_refers_to_the_counterexample_that_shows_it(shown: Any) -> None:
    found = shown(submitted(BRANCHES))

    assert 0 in {finding.counterexample for finding in found.kept.check.findings}
    listed = found.kept.counterexamples[0]
    assert (listed.method, listed.output, listed.inputs[0].name) == ("forward", "output", "x")


def test_what_agrees_everywhere_has_none(artifact: ArtifactOf) -> None:
    assert artifact(submitted("def Net(x):\n    return x * 2\n")).counterexamples == []


NESTED = """import torch


class Net(torch.nn.Module):
    def __init__(self, width, *, bias):
        super().__init__()
        self.layer = torch.nn.Linear(2, width, bias=bias)

    def encode(self, pair, more, *, scale, names, mask=None):
        x = pair["x"]
        if more[0].sum() > 0:
            return {"out": self.layer(x) * scale + mask}, [x]
        return {"out": -self.layer(x) * scale + mask}, [x]
"""
CASES: dict[str, dict[str, Any]] = {
    "nested arguments, of another method": {
        "source": {
            "files": {"pkg/net.py": NESTED, "pkg/__init__.py": ""},
            "entrypoint": "pkg.net:Net",
            "init": {"args": [3], "kwargs": {"bias": False}},
        },
        "example_inputs": [],
        "methods": {
            "encode": {
                "example_inputs": [{"x": X, "y": X}, [X, 7]],
                "example_kwarg_inputs": {"mask": tensor([[0.5]]), "scale": 2.0, "names": ["a", None]},
            }
        },
        "options": {"strict": False, "seed": 5},
    },
    "a function": {
        "source": {
            "files": {"net.py": "def net(x, y=2):\n    return x if x.sum() > 0 else x * y\n"}, "entrypoint": "net:net"
        }
    },
    "a factory": {
        "source": {
            "files": {"net.py": BRANCHES + "\ndef make(n):\n    return Net()\n"},
            "entrypoint": "net:make",
            "init": {"args": [1]},
        }
    },
    "an instance": {"source": {"files": {"net.py": BRANCHES + "\nNET = Net()\n"}, "entrypoint": "net:NET"}},
    "a bound method": {
        "source": {
            "files": {
                "net.py": BRANCHES.replace("forward", "run").replace("x + 1", "self.w(x)")
                .replace("    def run", "    def __init__(self):\n        super().__init__()\n"
                         "        self.w = torch.nn.Linear(2, 2)\n\n    def run") + "\nRUN = Net().run\n"
            },
            "entrypoint": "net:RUN",
        }
    },
    "many values": {
        "example_inputs": [{"datatype": "FP32", "shape": [3, 50], "random": {"seed": 0, "low": 0.5, "high": 1}}],
        "source": {"files": {"net.py": BRANCHES}, "entrypoint": "net:Net"},
    },
    "half precision": {
        "source": {"files": {"net.py": BRANCHES}, "entrypoint": "net:Net"},
        "options": {"precision": "bfloat16"},
    },
    "train mode": {
        "source": {
            "files": {"net.py": BRANCHES.replace("x.sum() > 0", "self.training and x.sum() > 0")},
            "entrypoint": "net:Net",
        },
        "training": True,
    },
    "odd letters": {
        "source": {
            "files": {"net.py": BRANCHES + '\n# \t"""\' \\n ä \x0c\n', "data.txt": 'a"'}, "entrypoint": "net:Net"
        }
    },
}  # fmt: skip


@pytest.mark.parametrize("members", CASES.values(), ids=CASES)
def test_each_kind_of_model_is_made_as_the_service_makes_it(shown: Any, members: dict[str, Any]) -> None:
    found = shown({**submitted(""), **members})

    assert found.shows_it(), found.output + found.text


WEIGHTED = """import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)

    def forward(self, x):
        y = self.layer(x)
        if x.sum() > 0:
            return y
        return -y
"""


@pytest.mark.parametrize("name", ["weights.safetensors", "weights.pt"])
def test_the_weights_that_were_submitted_go_with_it(shown: Any, name: str) -> None:
    state = {"weight": torch.ones(2, 2), "bias": torch.full((2,), 3.0)}
    named = {f"layer.{key}": value for key, value in state.items()}
    file = io.BytesIO()
    torch.save({"state_dict": named}, file)
    data = safetensors.torch.save(named) if name.endswith("safetensors") else file.getvalue()
    found = shown(submitted(WEIGHTED, weights={"file": name}), {name: data})

    assert (found.arrays["eager.output"] == -(found.arrays["input.x"].sum(1, keepdims=True) + 3)).all()
    assert found.shows_it(), found.output
    mended = "        return torch.where(x.sum() > 0, y, -y)\n"
    assert found.passes(found.text.replace(WEIGHTED[WEIGHTED.index("        if") :], mended)), found.output


def test_the_weights_are_chosen_and_renamed_there_as_here(shown: Any) -> None:
    averaged = {"module.layer.weight": torch.ones(2, 2), "module.layer.bias": torch.full((2,), 3.0)}
    file = io.BytesIO()
    torch.save({"net": {"layer.weight": torch.zeros(2, 2)}, "ema": averaged}, file)
    weights = {"file": "weights.pt", "key": "ema", "rename": {"module.": ""}}
    found = shown(submitted(WEIGHTED, weights=weights), {"weights.pt": file.getvalue()})

    assert (found.arrays["eager.output"] == -(found.arrays["input.x"].sum(1, keepdims=True) + 3)).all()
    assert found.shows_it(), found.output


def test_large_weights_must_be_put_beside_the_test(shown: Any) -> None:
    big = WEIGHTED.replace(
        "Linear(2, 2)", "Linear(2, 2)\n        self.table = torch.nn.Parameter(torch.ones(300, 300))"
    )
    data = safetensors.torch.save(
        {"layer.weight": torch.ones(2, 2), "layer.bias": torch.ones(2), "table": torch.ones(300, 300)}
    )
    found = shown(submitted(big, weights={"file": "large.safetensors"}), {"large.safetensors": data})

    assert found.run() != 0
    assert "put large.safetensors beside this test" in found.output
    (found.folder / "large.safetensors").write_bytes(data)
    assert found.shows_it(), found.output


def test_an_uploaded_source_goes_with_it(shown: Any) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("net.py", BRANCHES)
    source = {"file": "net.zip", "entrypoint": "net:Net"}
    found = shown({**submitted(""), "source": source}, {"net.zip": packed.getvalue()})

    assert found.shows_it(), found.output


def test_texts_beside_a_zip_can_be_mended_in_the_test(shown: Any) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("one.py", "ONE = 1\n")
        archive.writestr("net.py", "raise RuntimeError('another text stands in its place')\n")
    text = "from one import ONE\n" + BRANCHES.replace("x + 1", "x + ONE")
    source = {"file": "net.zip", "files": {"net.py": text}, "entrypoint": "net:Net"}
    found = shown({**submitted(""), "source": source}, {"net.zip": packed.getvalue()})

    assert found.shows_it(), found.output
    mended = found.text.replace(BRANCH.replace("x + 1", "x + ONE"), MENDED)
    assert mended != found.text
    assert found.passes(mended), found.output


def test_an_uploaded_file_goes_with_it(shown: Any) -> None:
    source = {"file": "any name.py", "entrypoint": "a.net:Net"}
    found = shown({**submitted(""), "source": source}, {"any name.py": BRANCHES.encode()})

    assert found.shows_it(), found.output


def test_what_is_served_frozen_is_frozen_there(shown: Any) -> None:
    found = shown(submitted(BRANCHES, options={"freeze": True}))

    assert "torch.jit.freeze(module.eval())" in found.text
    assert found.shows_it(), found.output


def test_bfloat16_stands_in_the_arrays_as_float32(shown: Any) -> None:
    found = shown(submitted(BRANCHES, options={"precision": "bfloat16"}))

    assert found.arrays["input.x"].dtype == np.float32
    assert "bfloat16" in str(found.arrays["note"])


def test_of_each_cause_the_smallest_is_shown(artifact: ArtifactOf) -> None:
    both = "def Net(x):\n    y = x if x.sum() > 0 else -x\n    return y * len(x[0])\n"
    longer = [tensor([[1.0] * 3, [1.0] * 3]), tensor([[1.0] * 9, [1.0] * 9])]
    kept = artifact(submitted(both, check={"check_inputs": longer, "budget_s": 60}))

    shapes = [one.inputs[0].shape for one in kept.counterexamples]
    assert sorted(shapes) == [(1, 2), (2, 1)]  # each leaves the other's cause as it is on the example
