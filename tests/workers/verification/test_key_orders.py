"""The orders of keys that a verification finds to be part of the contract."""

import pytest

from service.api import inference_json
from service.api.inference_json import Expected
from tests.submissions import spec, tensor
from tests.workers.conftest import ArtifactOf
from tracehouse.errors import KeyOrderMismatch
from tracehouse.findings.verdict import Verdict

PARTS = {"b": tensor([1.0]), "a": tensor([2.0])}


def test_an_order_on_which_the_answer_depends_is_fixed(artifact: ArtifactOf) -> None:
    sizes = {"wide": 2, "deep": 3}
    made = artifact(spec("reads_the_order_of_a_dict", example_inputs=[PARTS, sizes]))

    assert made.check.verdict is Verdict.VERIFIED
    assert made.contract.methods["forward"].key_orders == {"parts": ["b", "a"], "sizes": ["wide", "deep"]}
    found = [one.detail for one in made.check.findings if one.kind == "dict-order-fixed"]
    assert len(found) == 2
    assert "in the order a, b, 'output' changes" in found[0]


READS_BY_KEY = """
import torch
class Net(torch.nn.Module):
    def forward(self, parts, **others):
        u, v = others.values()
        return parts["a"] - 2 * parts["b"] + u - 2 * v
"""


def test_the_order_of_keywords_is_fixed_and_that_of_a_dict_read_by_key_is_free(artifact: ArtifactOf) -> None:
    others = {"v": tensor([3.0]), "u": tensor([3.0])}
    source = {"files": {"net.py": READS_BY_KEY}, "entrypoint": "net:Net"}
    made = artifact({"model": "net", "source": source, "example_inputs": [PARTS], "example_kwarg_inputs": others})

    assert made.check.verdict is Verdict.VERIFIED
    assert made.contract.methods["forward"].key_orders == {"**": ["v", "u"]}


READS_A_DEFAULT = """
import torch
class Net(torch.nn.Module):
    def forward(self, x, steps={"mul": 2, "add": 3}):
        for step, number in steps.items():
            x = x + number if step == "add" else x * number
        return x
"""


def test_a_default_that_a_request_sends_in_another_order_is_refused(artifact: ArtifactOf) -> None:
    source = {"files": {"net.py": READS_A_DEFAULT}, "entrypoint": "net:Net"}
    made = artifact({"model": "net", "source": source, "example_inputs": [tensor([1.0])]})
    contract = made.contract.methods["forward"]

    assert contract.key_orders == {"steps": ["mul", "add"]}
    for sent in ([[1.0]], [[1.0], {"mul": 2, "add": 3}]):
        assert [one.name for one in inference_json.read({"args": sent}, Expected.of([contract])).tensors] == ["x"]
    with pytest.raises(KeyOrderMismatch) as refused:
        inference_json.read({"args": [[1.0], {"add": 3, "mul": 2}]}, Expected.of([contract]))
    assert refused.value.facts == {"input": "steps", "actual": ["add", "mul"], "expected": ["mul", "add"]}
