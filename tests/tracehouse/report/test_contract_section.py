"""The contract in a report: what its sentences say of sizes."""

import pytest

from tracehouse.contract.contract import Contract, MethodContract
from tracehouse.contract.input_spec import InputSpec
from tracehouse.contract.structure import Argument, BakedLeaf, TensorLeaf
from tracehouse.report.contract_section import render_tables
from tracehouse.tensors.tensor import Datatype


@pytest.mark.parametrize(
    ("is_open", "said"),
    [
        (False, "forward accepts the sizes of its example, and no others."),
        (True, "forward is known to be right at the sizes of its example, and no others."),
    ],
)
def test_an_open_contract_does_not_say_that_it_refuses_what_was_never_tried(is_open: bool, said: str) -> None:
    method = MethodContract(
        arguments=[Argument(name="x", structure=TensorLeaf(tensor="x"))],
        inputs=[InputSpec(name="x", datatype=Datatype.FP32, shape=(2,), example=(2,))],
        outputs=[],
        returns=BakedLeaf(baked=None),
        regions=[],
    )

    assert f"<p>{said}</p>" in render_tables(Contract(methods={"forward": method}, open=is_open), "", [])
