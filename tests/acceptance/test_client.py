"""`tracehouse.Client` against a real service, as a person uses it from a script."""

import asyncio
import json
import os
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tracehouse
from tests.acceptance.conftest import LINEAR, Service, create_key
from tests.live_models import Adds, Branches, Nests, ReturnsItsLength
from tracehouse.client import errors
from tracehouse.client.client import LeftBehind

# So that a busy machine does not cut the check: the verdict's sentence would say so.
AMPLE = {"budget_s": 120}


@pytest.fixture(scope="module")
def client(service: Service) -> tracehouse.Client:
    return tracehouse.Client(service.address)


def run_script(folder: Path, service: Service, files: dict[str, str], script: str = "train.py") -> dict[str, Any]:
    """Run a script of a project, and return the JSON in the last line that it prints."""
    write_files(folder, files)
    run = subprocess.run(
        [sys.executable, script],
        cwd=folder,
        env=os.environ | {"TRACEHOUSE_URL": service.address},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    printed: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return printed | {"stderr": run.stderr}


def write_files(folder: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(textwrap.dedent(text))


BLOCKS = """
import torch
from net.activations import sharpen


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = torch.nn.Linear(width, width)
        self.dropout = torch.nn.Dropout(0.5)
        self.register_buffer("shift", torch.zeros(width))
        self.register_buffer("kept", torch.zeros(width), persistent=False)
        self.scale = 1.0

    def forward(self, x):
        return sharpen(self.dropout(self.linear(x)) * self.scale + self.shift + self.kept)
"""
PROJECT = {
    "net/__init__.py": "",
    "net/blocks.py": BLOCKS,
    "net/activations.py": "import torch\n\n\ndef sharpen(x):\n    return torch.relu(x) ** 2\n",
    "net/unused.py": "raise RuntimeError('nobody imports this')\n",
}
TRAIN = """
import json
import pathlib

import torch
import tracehouse
from net.blocks import Block

WIDTH = 4
THRESHOLDS = torch.tensor([0.25, 0.5, 0.75, 1.0])


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Block(WIDTH)
        self.second = Block(WIDTH)
        self.second.linear.weight = self.first.linear.weight

    def forward(self, x):
        return gate(self.second(self.first(x)))


def gate(x):
    return torch.where(x > THRESHOLDS, x, -x)


pathlib.Path("runs").open("a").write("x")
model = Net()
optimiser = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(3):
    model(torch.ones(2, WIDTH)).sum().backward()
    optimiser.step()
model.eval()
model.first.scale = 3.0
model.first.shift += 0.5
model.second.kept += 0.25
THRESHOLDS[0] = -5.0

example = torch.linspace(-1, 1, 8).reshape(2, 4)
trace = tracehouse.Client().trace(model, example, name="project", budget_s=120)
trace.download("net.pt")
served = torch.jit.load("net.pt").state_dict()
own = model.state_dict()
print(json.dumps({
    "verdict": trace.verdict,
    "files": sorted(trace.sent_files),
    "main": trace.sent_files["train.py"],
    "same": all(served[name].numpy().tobytes() == value.numpy().tobytes() for name, value in own.items()),
    "weights": len(own),
    "served": trace.infer(example).tolist(),
    "own": model(example).tolist(),
    "notes": trace.notes,
}))
"""


def test_a_trained_model_of_several_files_arrives_as_it_is(service: Service, tmp_path: Path) -> None:
    """Weights, buffers and tied weights byte for byte; attributes, and values of the script, as they are when sent."""
    printed = run_script(tmp_path, service, {**PROJECT, "train.py": TRAIN})

    assert (printed["verdict"], printed["same"], printed["weights"]) == ("verified", True, 6)
    assert printed["served"] == printed["own"]
    assert printed["files"] == ["live_model.py", "net/__init__.py", "net/activations.py", "net/blocks.py", "train.py"]
    assert printed["notes"] == []


def test_a_script_is_not_run_again_and_its_lines_stay_where_they_are(service: Service, tmp_path: Path) -> None:
    printed = run_script(tmp_path, service, {**PROJECT, "train.py": TRAIN})

    assert (tmp_path / "runs").read_text() == "x"
    assert "optimiser" not in printed["main"]
    own, sent = (tmp_path / "train.py").read_text().splitlines(), printed["main"].splitlines()
    line = own.index("class Net(torch.nn.Module):")
    assert sent[line : line + 10] == own[line : line + 10]


def test_each_part_keeps_its_own_mode(client: tracehouse.Client) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3), torch.nn.Dropout(0.9))
    model.eval()
    model[1].train()
    trace = client.trace(model, torch.randn(4, 3), name="modes", accept_unsound=True)
    trace.wait()
    manifest = trace.result().artifacts[0]
    modes = {one["name"]: one["value"] for one in manifest["attributes"] if one["name"].endswith("training")}

    assert (manifest["training"], modes["1.training"], modes["2.training"]) == ("as-is", "True", "False")


def test_a_function_is_traced_and_served(service: Service, tmp_path: Path) -> None:
    script = """
        import json, numpy, tracehouse
        from scaling import FACTOR

        def scale(x, y):
            return {"sum": (x + y) * FACTOR, "both": (x, [y])}

        trace = tracehouse.Client().trace(scale, (numpy.ones((2, 3), "float32"), numpy.ones((2, 3), "float32")))
        answer = trace.infer(numpy.full((2, 3), 2, "float32"), y=numpy.ones((2, 3), "float32"))
        kinds = [type(answer["sum"]).__name__, type(answer["both"]).__name__, type(answer["both"][1]).__name__]
        print(json.dumps({"verdict": trace.verdict, "sum": answer["sum"].tolist(), "kinds": kinds}))
    """
    printed = run_script(tmp_path, service, {"scaling.py": "FACTOR = 3\n", "train.py": script})

    assert printed["sum"] == [[9.0] * 3] * 2
    assert printed["kinds"] == ["ndarray", "tuple", "list"]
    assert printed["verdict"] == "verified"


def test_a_bound_method_a_lambda_and_a_local_class_are_traced(service: Service, tmp_path: Path) -> None:
    script = """
        import json, torch, tracehouse, warnings

        def make():
            class Local(torch.nn.Module):
                def encode(self, x):
                    return x * 2
            return Local()

        warnings.simplefilter("ignore")
        client = tracehouse.Client()
        x = torch.ones(2, 3)
        traces = [client.trace(make().encode, x, name="method"), client.trace(lambda x: x + 1, x, name="lambda")]
        print(json.dumps({
            "answers": [trace.infer(x).sum().item() for trace in traces],
            "notes": [trace.notes for trace in traces],
        }))
    """
    printed = run_script(tmp_path, service, {"train.py": script})

    assert printed["answers"] == [12.0, 12.0]
    assert all(any("bytecode of Python" in note for note in notes) for notes in printed["notes"])


def test_a_model_that_is_built_where_it_is_served_says_what_its_weights_do_not_bring(
    client: tracehouse.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = BLOCKS.replace("from net.activations import sharpen", "sharpen = torch.relu")
    (tmp_path / "built_net.py").write_text(alone)
    monkeypatch.syspath_prepend(tmp_path)
    block = __import__("built_net").Block
    model, example = block(4).eval(), torch.randn(2, 4)
    same = client.trace(model, example, made_by=block, args=[4], name="built", **AMPLE)
    assert (same.notes, "source.zip" in str(same.sent_files)) == ([], False)
    assert torch.equal(same.infer(example), model(example))

    model.scale = 2.0
    with pytest.warns(LeftBehind, match="scale is 2.0 here, and 1.0 as made_by builds it"):
        other = client.trace(model, example, made_by="built_net:Block", args=[4], name="built")
    assert other.state != "failed"


@pytest.mark.parametrize("form", ["file", "folder", "zip"])
def test_a_source_is_named_by_its_path(client: tracehouse.Client, tmp_path: Path, form: str) -> None:
    write_files(tmp_path, {"project/net.py": LINEAR.replace("import torch", "import torch\nimport sizes"),
                           "project/sizes.py": "ROWS = 2\n"})  # fmt: skip
    folder = tmp_path / "project"
    with zipfile.ZipFile(tmp_path / "project.zip", "w") as archive:
        for file in folder.iterdir():
            archive.write(file, file.name)
    named = {"file": f"{folder}/net.py:Net", "folder": f"{folder}:net:Net", "zip": f"{tmp_path}/project.zip:net:Net"}
    weights = {"linear.weight": torch.ones(3, 4), "linear.bias": torch.zeros(3)}
    trace = client.trace(
        named[form], torch.ones(1, 4), kwargs={"features": 4}, weights=weights, name=f"named_{form}", **AMPLE
    )

    assert trace.infer(torch.ones(1, 4)).tolist() == [[4.0, 4.0, 4.0]]
    assert (trace.verdict, trace.result().model) == ("verified", f"named_{form}:1")


def test_an_installed_package_and_an_archive_are_sources(client: tracehouse.Client, tmp_path: Path) -> None:
    trace = client.trace("torch.nn:Linear", torch.ones(1, 2), args=(2, 3), name="installed")
    archive = trace.download(tmp_path / "linear.pt")
    again = client.trace(f"{archive}", torch.ones(1, 2), name="archived")
    compiled = client.trace(torch.jit.load(archive), torch.ones(1, 2), name="compiled")

    assert [one.verdict for one in (trace, again, compiled)] == ["verified", "self-consistent", "self-consistent"]
    assert torch.equal(trace.infer(torch.ones(1, 2)), compiled.infer(torch.ones(1, 2)))


def test_inputs_and_answers_nest_as_the_models_do(client: tracehouse.Client) -> None:
    model = Nests().eval()
    pair = torch.ones(2, 3), torch.zeros(2, 3)
    batch = {"values": torch.randn(2, 3), "ids": torch.ones(2, 3)}
    trace = client.trace(model, (batch, pair), example_kwarg_inputs={"scale": 2.0}, name="nests", **AMPLE)
    answer = trace.infer(batch, pair, scale=2.0)

    assert torch.equal(answer["sums"][1], model(batch, pair, scale=2.0)["sums"][1])
    assert (type(answer["sums"]), answer["kept"]) == (tuple, "text")
    with pytest.raises(errors.OutsideContract, match=r"'scale' was 2.0") as refused:
        trace.infer(batch, pair, scale=3.0)
    assert refused.value.code == "baked-argument"
    with pytest.raises(errors.OutsideContract) as refused:
        client.infer("nests", {"ids": batch["ids"]}, pair, scale=2.0)
    assert refused.value.code == "missing-input"


def test_of_several_buckets_the_answer_has_the_constants_of_the_one_that_gave_it(client: tracehouse.Client) -> None:
    trace = client.trace(ReturnsItsLength(), torch.zeros(1, 3), dynamic={"x": {"1": "seq"}}, buckets={"seq": [3, 5]})

    assert [(answer.tolist(), length) for answer, length in (trace.infer(torch.zeros(1, n)) for n in (5, 3))] == [
        ([[5.0] * 5], 5),
        ([[3.0] * 3], 3),
    ]


def test_an_input_outside_of_the_contract_is_refused_with_its_problem(client: tracehouse.Client) -> None:
    client.trace(torch.nn.Linear(2, 3).eval(), torch.ones(1, 2), name="refuses").wait()
    with pytest.raises(errors.OutsideContract, match=r"not \[batch, 2\]") as refused:
        client.infer("refuses", np.ones((1, 5), np.float32))

    assert (refused.value.code, refused.value.problem["status"]) == ("shape-mismatch", 422)
    assert client.infer("refuses", [[1.0, 2.0]]).shape == (1, 3)


def test_a_promoted_version_answers_the_next_call(client: tracehouse.Client) -> None:
    for value in (1.0, 2.0):
        client.trace(Adds(value).eval(), torch.zeros(2), name="promoted-by-client", promote="never").wait()
    client.models.promote("promoted-by-client", 1)
    assert client.infer("promoted-by-client", torch.zeros(2)).tolist() == [1.0, 1.0]

    assert client.models.promote("promoted-by-client", 2) == 1
    assert client.infer("promoted-by-client", torch.zeros(2)).tolist() == [2.0, 2.0]
    client.models.set_alias("promoted-by-client", "prod", 2)
    client.models.set_alias("promoted-by-client", "prod", 1)
    assert client.infer("promoted-by-client@prod", torch.zeros(2)).tolist() == [1.0, 1.0]
    assert client.infer("promoted-by-client:2", torch.zeros(2)).tolist() == [2.0, 2.0]
    assert "promoted-by-client" in [model.name for model in client.models.list()]
    with pytest.raises(errors.Conflict):
        client.models.delete_version("promoted-by-client", 1)
    client.models.delete_alias("promoted-by-client", "prod")
    client.models.delete_version("promoted-by-client", 1)
    assert [one.version for one in client.models.get("promoted-by-client").versions] == [2]
    client.models.delete("promoted-by-client")
    with pytest.raises(errors.NotFound):
        client.models.get("promoted-by-client")


def test_a_rejected_trace_says_why_nothing_answers(client: tracehouse.Client) -> None:
    trace = client.trace(Branches(), torch.ones(3), name="branches")
    assert trace.verdict == "rejected"
    assert (trace.findings[0].kind, trace.findings[0].source) == ("baked-value", "if x.sum() > 0:")
    with pytest.raises(errors.NotServed, match=r"live_models.py:\d+: if x.sum\(\) > 0:"):
        trace.infer(torch.ones(3))


def test_the_async_client_does_the_same(service: Service, tmp_path: Path) -> None:
    async def use() -> tuple[Any, Any, list[str]]:
        kinds: list[str] = []
        async with tracehouse.AsyncClient(service.address) as client:
            trace = await client.trace(torch.nn.Linear(2, 3).eval(), torch.ones(1, 2), name="async")
            await trace.wait(lambda kind, _: kinds.append(kind))
            await trace.download(tmp_path / "net.pt")
            return await trace.infer(torch.ones(1, 2)), (await client.models.get("async")).default_version, kinds

    answer, version, kinds = asyncio.run(use())
    assert torch.allclose(answer, torch.jit.load(tmp_path / "net.pt")(torch.ones(1, 2)))
    assert (version, kinds[-1], "layer" in kinds) == (1, "end", True)


def test_printouts_report_and_log_are_at_hand(client: tracehouse.Client) -> None:
    trace = client.trace(torch.nn.Linear(2, 3).eval(), torch.ones(1, 2), name="printed")

    assert "aten::linear" in trace.printout("inlined_graph")
    assert "def forward" in trace.printout("code")
    assert trace.report().startswith("<!doctype html>")
    assert client.get_trace(trace.id).result().digest == trace.result().digest
    assert trace.log() == ""


def test_an_earlier_trace_is_found_again_and_deleted(client: tracehouse.Client) -> None:
    trace = client.trace(torch.nn.Linear(2, 3).eval(), torch.ones(1, 2), name="found-again").wait()

    [listed] = client.list_traces(model="found-again")
    assert (listed.id, listed.result().digest) == (trace.id, trace.result().digest)
    with pytest.raises(errors.Conflict, match="version"):
        listed.delete()
    client.models.delete("found-again")
    listed.delete()
    assert client.list_traces(model="found-again") == []


def test_a_model_that_is_only_run_gives_what_it_returned(client: tracehouse.Client) -> None:
    trace = client.trace(Adds(1.5), torch.ones(2), check_inputs=[(torch.zeros(2),)], mode="eager", name="runs")

    assert [output.tolist() for output in trace.outputs()] == [[2.5, 2.5], [1.5, 1.5]]
    assert (trace.verdict, trace.result().model) == (None, None)
    with pytest.raises(errors.NotServed, match="mode eager traces nothing"):
        _ = trace.contract
    with pytest.raises(errors.NotFound, match='mode="eager"'):
        client.trace(Adds(1.5), torch.ones(2), name="traced").outputs()


def test_what_cannot_be_traced_says_which_line_raised(client: tracehouse.Client) -> None:
    trace = client.trace(torch.nn.Linear(2, 3).eval(), torch.ones(1, 5), name="fails")
    with pytest.raises(errors.TraceFailed, match="mat1 and mat2 shapes cannot be multiplied") as failed:
        trace.result()

    assert failed.value.code == "model-raised"
    assert "The trace failed" in trace._repr_html_()


def test_a_missing_package_is_named_with_what_to_do(client: tracehouse.Client, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("import not_installed_anywhere\n" + LINEAR)
    with pytest.raises(errors.TraceFailed, match="not_installed_anywhere") as failed:
        client.trace(f"{tmp_path}/net.py:Net", torch.ones(1, 2), name="lacks").result()

    assert failed.value.code == "source-import-failed"
    assert failed.value.problem["missing_module"] == "not_installed_anywhere"


def test_no_key_and_a_wrong_key_are_told_with_what_to_do(service_with_keys: Service) -> None:
    key = create_key(service_with_keys, "--tenant", "of-the-client", "--scope", "trace", "--scope", "read")
    address = service_with_keys.address
    for given, said in ((None, "give a key as Client"), ("th_wrong_key", "not known here: give another one")):
        with pytest.raises(errors.KeyRefused, match=said):
            tracehouse.Client(address, given).models.list()
    client = tracehouse.Client(address, key)
    client.trace(torch.nn.Linear(2, 3).eval(), torch.ones(1, 2), name="net").wait()
    with pytest.raises(errors.NotAllowed, match="infer"):
        client.infer("net", torch.ones(1, 2))
