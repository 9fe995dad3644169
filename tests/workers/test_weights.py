"""Weights that never arrived: what a client is told of them, by the whole of a trace request."""

import os
from typing import Any

import pytest
import safetensors.torch
import torch

from service.domain.trace_request import State
from service.storage.database import Store
from tests.submissions import spec, tensor
from tests.workers.conftest import Work
from tracehouse.differential import golden
from tracehouse.findings.verdict import Verdict
from tracehouse.tensors.tensor import unpack

X = tensor([[1.0, 2.0, 3.0, 4.0]])
STATE = {"module.layer.weight": torch.ones(3, 4), "module.layer.bias": torch.zeros(3)}
FILES = {"w.safetensors": safetensors.torch.save(STATE)}


def submitted(**weights: Any) -> dict[str, Any]:
    return spec("linear", example_inputs=[X], weights={"file": "w.safetensors", **weights})


def test_weights_that_do_not_fit_fail_with_a_remedy_that_loads_them_in_every_process(work: Work, store: Store) -> None:
    refused = work(submitted(), FILES)

    assert refused.failure is not None
    assert refused.failure.slug == "weights-mismatch"
    assert refused.failure.facts["missing"] == ["layer.weight", "layer.bias"]
    assert 'weights.rename to {"module.": ""}' in refused.failure.facts["remedy"]

    mended = work(submitted(rename={"module.": ""}), FILES)
    assert (mended.verdict, mended.findings) == (Verdict.VERIFIED, [])
    kept = store.artifacts.get(mended.tenant, mended.artifacts[0].digest)
    with store.blobs.open(kept.golden.digest) as file:
        [first, *_] = golden.read(os.dup(file.fileno()))
    [output] = first.outputs  # of the reference process
    assert unpack(output.datatype, output.data) == [10.0, 10.0, 10.0]


def test_a_model_whose_weights_are_missing_is_rejected_and_not_registered(work: Work) -> None:
    request = work(submitted(strict=False), FILES)

    assert (request.state, request.verdict, request.model) == (State.SUCCEEDED, Verdict.REJECTED, None)
    assert request.findings[0].kind == "weights-missing"
    assert 'weights.rename to {"module.": ""}' in str(request.findings[0].remedy)


@pytest.mark.parametrize("patterns", [["layer.*"], ["*.weight", "layer.bias"]])
def test_what_the_request_allows_to_be_missing_rejects_nothing(work: Work, patterns: list[str]) -> None:
    request = work(submitted(strict=False, allow_missing=patterns), FILES)

    assert request.verdict is Verdict.VERIFIED
    assert [finding.kind for finding in request.findings] == ["weights-missing-allowed", "weights-unexpected"]


def test_mode_eager_does_not_run_without_its_weights(work: Work) -> None:
    request = work({**submitted(strict=False), "mode": "eager"}, FILES)

    assert request.failure is not None
    assert request.failure.slug == "weights-mismatch"
