"""What a model returned in mode eager, in one file."""

from io import BytesIO

import numpy as np
import safetensors

from service.domain.eager_outputs import EagerOutputs, EagerResult, iter_file_bytes
from tracehouse.contract.structure import BakedLeaf, DictNode, TensorLeaf, TupleNode
from tracehouse.tensors.tensor import Datatype, Tensor

LOGITS = Tensor("output.logits", Datatype.FP32, (2,), np.float32([1.5, -2]).tobytes())
NOTHING = Tensor("output.0", Datatype.BF16, (0, 3), b"")
FLAG = Tensor("output.1", Datatype.BOOL, (), b"\1")
CALLS = [
    EagerResult(
        "forward",
        "example",
        DictNode(mapping={"logits": TensorLeaf(tensor="output.logits"), "name": BakedLeaf(baked="net")}),
        [LOGITS],
    ),
    EagerResult(
        "forward",
        "check_inputs[0]",
        TupleNode(tuple=[TensorLeaf(tensor="output.0"), TensorLeaf(tensor="output.1")]),
        [FLAG, NOTHING],
    ),
    EagerResult("score", "example", BakedLeaf(baked=[1, None]), []),
]
FILE = b"".join(iter_file_bytes(CALLS))


def test_what_was_written_is_read_in_the_order_in_which_it_nests() -> None:
    read = EagerOutputs(BytesIO(FILE))

    assert [(call.method, call.case, call.returns) for call in read.calls] == [
        (call.method, call.case, call.returns) for call in CALLS
    ]
    assert [list(read.outputs(place)) for place in range(3)] == [[LOGITS], [NOTHING, FLAG], []]


def test_the_file_is_one_that_safetensors_reads() -> None:
    read = dict(safetensors.deserialize(FILE))  # type: ignore[no-untyped-call]

    assert sorted(read) == ["0.output.logits", "1.output.0", "1.output.1"]
    assert np.frombuffer(read["0.output.logits"]["data"], np.float32).tolist() == [1.5, -2]
    assert (read["1.output.0"]["dtype"], read["1.output.0"]["shape"]) == ("BF16", [0, 3])
