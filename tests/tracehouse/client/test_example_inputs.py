"""Example inputs as a trace request has them."""

import io
from collections import namedtuple
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

from tracehouse.client.errors import NotSendable
from tracehouse.client.example_inputs import ExampleInputs


def test_nested_values_keep_their_form_and_tensors_go_in_a_file() -> None:
    inputs = ExampleInputs()
    given = {"ids": torch.arange(3), "pair": (np.float32(0.5), [True, None, "text"])}
    call = inputs.call("example_inputs", (given, torch.ones(2, dtype=torch.bfloat16)), {"scale": 2})

    assert call == {
        "example_inputs": [
            {
                "ids": {"file": "inputs.safetensors", "key": "example_inputs[0]['ids']"},
                "pair": {"tuple": [0.5, [True, None, "text"]]},
            },
            {"file": "inputs.safetensors", "key": "example_inputs[1]"},
        ],
        "example_kwarg_inputs": {"scale": 2},
    }
    sent = safetensors.torch.load(inputs.uploads()["inputs.safetensors"])
    assert torch.equal(sent["example_inputs[0]['ids']"], torch.arange(3))
    assert sent["example_inputs[1]"].dtype == torch.bfloat16


def test_one_tensor_is_the_one_argument() -> None:
    assert len(ExampleInputs().call("example_inputs", torch.ones(2))["example_inputs"]) == 1


def test_an_array_of_another_byte_order_and_a_view_keep_their_values() -> None:
    inputs = ExampleInputs()
    inputs.call("x", (np.arange(6, dtype=">f4").reshape(2, 3).T, torch.arange(6.0).reshape(2, 3).T))
    sent = safetensors.torch.load(inputs.uploads()["inputs.safetensors"])

    assert sent["x[0]"].tolist() == sent["x[1]"].tolist() == [[0, 3], [1, 4], [2, 5]]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (torch.ones(2, 3, device="meta"), r"x\[0\] is on the meta device.*torch.randn\(2, 3\)"),
        (torch.eye(3).to_sparse(), r"in the layout sparse_coo.*x.to_dense\(\)"),
        (torch.ones(2, dtype=torch.complex64), "complex64, which no input has.*torch.view_as_real"),
        (torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8), r"x.dequantize\(\)"),
        (torch.nested.nested_tensor([torch.ones(1), torch.ones(2)]), "pad it: torch.nested.to_padded_tensor"),
        (np.array(["a"]), "array of <U1, which no input has"),
        (np.ones(2, np.complex64), "array of complex64.*torch.view_as_real"),
        ({1: torch.ones(2)}, "keys that are no texts"),
        ({"file": torch.ones(2)}, "rename the key"),
        (namedtuple("Pair", "a b")(1, 2), "named tuple, Pair: give a plain tuple"),
        ({"inner": [io.StringIO()]}, r"x\[0\]\['inner'\]\[0\] is a StringIO: an input is a tensor"),
    ],
    ids=[
        "meta",
        "sparse",
        "complex",
        "quantised",
        "nested",
        "texts",
        "complex array",
        "keys",
        "file",
        "named",
        "other",
    ],
)
def test_an_input_that_cannot_be_sent_is_named_with_what_to_do(value: Any, said: str) -> None:
    with pytest.raises(NotSendable, match=said):
        ExampleInputs().call("x", (value,))
