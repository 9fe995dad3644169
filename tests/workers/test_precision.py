"""Precision: the model and its inputs are cast before anything is traced, checked or served."""

import io
import os
from typing import Any

import pytest
import safetensors.torch
import torch

from service.storage.database import Store
from tests.submissions import spec, tensor
from tests.workers.conftest import ArtifactOf, Work
from tracehouse.differential import golden
from tracehouse.findings.verdict import Verdict
from tracehouse.tensors.tensor import Datatype

X = tensor([[1.0, 2.0, 3.0, 4.0], [0.5, -1.0, 2.5, -2.0]])
DATATYPES = {
    "float32": Datatype.FP32,
    "bfloat16": Datatype.BF16,
    "float16": Datatype.FP16,
    "float64": Datatype.FP64,
}


@pytest.mark.parametrize(("precision", "datatype"), DATATYPES.items())
def test_model_and_inputs_are_in_the_precision_that_is_asked_for(
    artifact: ArtifactOf, store: Store, precision: str, datatype: Datatype
) -> None:
    check = {"check_inputs": [[tensor([[-1.0, 0.5, 7.0, 0.0], [1.0, 1.0, 1.0, 1.0]])]]}
    kept = artifact(spec("linear", example_inputs=[X], options={"precision": precision}, check=check))

    forward = kept.contract.method("forward")
    assert kept.precision == precision
    assert kept.check.verdict is Verdict.VERIFIED, kept.check
    assert {one.datatype for one in [*forward.inputs, *forward.outputs, *kept.parameters]} == {datatype}
    assert next(one for one in kept.check.comparisons if one.case == "check_inputs[0]").in_contract
    with store.blobs.open(kept.golden.digest) as file:
        cases = golden.read(os.dup(file.fileno()))
    assert {one.datatype for case in cases for one in [*case.inputs, *case.outputs]} == {datatype}


def test_integers_stay_what_they_are(artifact: ArtifactOf) -> None:
    source = "import torch\ndef Net(x, ids):\n    return x[ids] * 2\n"
    kept = artifact(
        {
            "model": "net",
            "source": {"files": {"net.py": source}, "entrypoint": "net:Net"},
            "example_inputs": [X, tensor([1, 0], "INT64")],
            "options": {"precision": "bfloat16"},
            "check": {"probes": "off"},
        }
    )

    assert [one.datatype for one in kept.contract.method("forward").inputs] == [Datatype.BF16, Datatype.INT64]


def test_the_weights_are_cast_when_they_are_loaded(artifact: ArtifactOf, store: Store) -> None:
    weights = {"layer.weight": torch.full((3, 4), 0.1), "layer.bias": torch.zeros(3)}
    kept = artifact(
        spec("lazy", example_inputs=[X], options={"precision": "bfloat16"}, weights={"file": "weights.safetensors"}),
        {"weights.safetensors": safetensors.torch.save(weights)},
    )

    with store.blobs.open(kept.archive.digest) as file:
        loaded = torch.jit.load(io.BytesIO(file.read()))
    assert loaded.layer.weight.dtype is torch.bfloat16
    assert loaded.layer.weight[0, 0] == torch.tensor(0.1, dtype=torch.bfloat16)


@pytest.mark.parametrize("name", ["lazy", "refuses_to_be_copied", "encoder"])
def test_all_copies_of_the_model_are_cast(artifact: ArtifactOf, name: str) -> None:
    drawn = {"datatype": "FP32", "shape": [2, 5, 8] if name == "encoder" else [2, 4], "random": {"seed": 0}}
    kept = artifact(spec(name, example_inputs=[drawn], options={"precision": "bfloat16"}))

    assert kept.check.verdict is Verdict.VERIFIED, kept.check


def test_an_operator_that_a_precision_lacks_is_told_with_its_line(work: Work) -> None:
    source = "import torch\ndef Net(x):\n    y = x + 1\n    return torch.linalg.inv(y @ y.mT)\n"
    request = work(
        {
            "model": "net",
            "source": {"files": {"net.py": source}, "entrypoint": "net:Net"},
            "example_inputs": [X],
            "options": {"precision": "bfloat16"},
        }
    )

    assert request.failure is not None
    assert request.failure.slug == "model-raised"
    assert "BFloat16" in request.failure.detail
    assert request.failure.facts["line"] == 4


def test_autocast_in_the_source_is_traced_as_it_is(artifact: ArtifactOf) -> None:
    kept = artifact(spec("autocasts", example_inputs=[X]))

    forward = kept.contract.method("forward")
    assert kept.check.verdict is Verdict.VERIFIED, kept.check
    assert [one.datatype for one in [*forward.inputs, *forward.outputs]] == [Datatype.FP32, Datatype.BF16]
    assert {one.datatype for one in kept.parameters} == {Datatype.FP32}


@pytest.mark.parametrize("options", [{}, {"freeze": True}, {"optimize_for_inference": True}])
def test_gradients_and_forms_work_in_a_lower_precision(artifact: ArtifactOf, options: dict[str, Any]) -> None:
    drawn = {"datatype": "FP32", "shape": [2, 3, 8, 8], "random": {"seed": 0}}
    check = {"probes": "off"} if options else {"gradients": True}  # one has the layers of the check as well
    kept = artifact(
        spec("convolves", example_inputs=[drawn], options={"precision": "bfloat16", **options}, check=check)
    )

    assert kept.check.verdict is Verdict.VERIFIED, kept.check


def test_an_example_in_bfloat16_is_answered_in_the_datatype_that_is_sent(artifact: ArtifactOf, store: Store) -> None:
    source = "import torch\ndef Net(x):\n    return x.softmax(-1) * 0.1, x.argmax(-1)\n"
    kept = artifact(
        {
            "model": "net",
            "source": {"files": {"net.py": source}, "entrypoint": "net:Net"},
            "example_inputs": [{**X, "datatype": "BF16"}],
        }
    )

    forward = kept.contract.method("forward")
    assert kept.check.verdict is Verdict.VERIFIED, kept.check
    assert forward.inputs[0].datatypes == ["BF16", "FP32", "FP16"]
    assert [(one.datatype, one.datatype_of) for one in forward.outputs] == [("BF16", "x"), ("INT64", None)]
    assert forward.regions[0].basis == "proven"
    with store.blobs.open(kept.golden.digest) as file:
        cases = golden.read(os.dup(file.fileno()))
    assert {one.datatype for case in cases for one in case.inputs} == {Datatype.BF16}
    assert {one.datatype for case in cases for one in case.outputs} == {Datatype.BF16, Datatype.INT64}
