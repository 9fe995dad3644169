"""Samples in a file: both processes answer them, and the contract is held against them."""

import io
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from tests.submissions import spec, tensor
from tests.workers.conftest import ArtifactOf, Work
from tracehouse.findings.verdict import Verdict

X = tensor([[1.0, 2.0, 3.0, 4.0]])


def npz(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def rows(count: int) -> Any:
    return np.ones((count, 4), np.float32)


def of_samples(count: int, file: str = "s.npz", **changes: Any) -> dict[str, Any]:
    return spec("linear", example_inputs=[X], check={"samples": [{"file": file, "count": count}], **changes})


@pytest.mark.parametrize("file", ["s.npz", "s.safetensors"])
def test_each_sample_is_answered_by_both_processes(artifact: ArtifactOf, file: str) -> None:
    named = {"0/x": rows(1), "1/x": rows(3)}
    content = npz(**named) if file.endswith("npz") else safetensors.numpy.save(named)
    check = artifact(of_samples(2, file), {file: content}).check

    assert {one.case: one.agrees for one in check.comparisons if one.case.startswith("samples")} == {
        "samples[0]": True,
        "samples[1]": True,
    }
    assert (check.samples, check.verdict) == (2, Verdict.VERIFIED)


def test_a_sample_that_the_contract_refuses_restricts_the_artifact(artifact: ArtifactOf) -> None:
    check = artifact(of_samples(1, probes="off"), {"s.npz": npz(**{"0/x": rows(5)})}).check

    assert check.verdict is Verdict.RESTRICTED
    (refused,) = [one for one in check.findings if one.kind == "sizes-not-covered"]
    assert refused.evidence["case"] == "samples[0]"


@pytest.mark.parametrize(
    ("named", "slug"),
    [({"0/y": rows(1)}, "inputs-unreadable"), ({"0/x": np.ones((1, 4), np.int64)}, "argument-mismatch")],
)
def test_a_sample_without_an_input_or_with_another_datatype_fails_the_request(
    work: Work, named: dict[str, Any], slug: str
) -> None:
    request = work(of_samples(1), {"s.npz": npz(**named)})

    assert request.failure is not None
    assert request.failure.slug == slug
