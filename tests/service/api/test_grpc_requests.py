"""Requests for inference as messages of gRPC, taken apart in this process."""

import sys
import tracemalloc
from types import FrameType

import pytest

from service.api.grpc.infer_request import find_id, parse
from service.api.grpc.open_inference_pb2 import ModelInferRequest
from service.api.inference_json import Expected
from tracehouse.byte_units import MIB
from tracehouse.contract.contract import MethodContract
from tracehouse.contract.input_spec import InputSpec
from tracehouse.contract.output_spec import OutputSpec
from tracehouse.contract.structure import Argument, TensorLeaf
from tracehouse.errors import InvalidTensor
from tracehouse.tensors.tensor import Datatype

METHOD = MethodContract(
    arguments=[Argument(name="x", structure=TensorLeaf(tensor="x"))],
    inputs=[InputSpec(name="x", datatype=Datatype.FP32, shape=(2,), example=(2,))],
    outputs=[OutputSpec(name="output", datatype=Datatype.FP32, shape=(2,))],
    returns=TensorLeaf(tensor="output"),
)


def test_a_shape_of_millions_of_sizes_is_refused_before_each_becomes_an_object() -> None:
    sent = ModelInferRequest(model_name="net")
    sent.inputs.add(name="x", datatype="FP32", shape=[2**40] * 1_000_000)
    head = sent.SerializeToString()
    tracemalloc.start()
    try:
        with pytest.raises(InvalidTensor, match="a shape is a list of sizes"):
            parse(head, [], lambda _: ("forward", Expected.of([METHOD])))
        assert tracemalloc.get_traced_memory()[1] < MIB
    finally:
        tracemalloc.stop()


def test_the_id_of_a_request_that_is_refused_is_found_in_little_work_whatever_the_message_is() -> None:
    sent = ModelInferRequest(model_name="net", model_version="1", id="third").SerializeToString()
    nothing = b"\x48" + b"\xff" * 9 + b"\x01"  # a field that is none of the message's
    calls = 0

    def count_call(_: FrameType, event: str, __: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count_call)
    try:
        found = find_id(sent + nothing * 100_000)
    finally:
        sys.setprofile(None)
    assert found == "third"
    assert calls < 100
