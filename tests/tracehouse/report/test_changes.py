"""What differs between two traces."""

from tracehouse.contract.contract import Contract, MethodContract
from tracehouse.contract.input_spec import InputSpec
from tracehouse.contract.output_spec import OutputSpec
from tracehouse.contract.regions import Basis, Region, Span
from tracehouse.contract.structure import Argument, BakedLeaf, TensorLeaf
from tracehouse.report.changes import Traced, compare
from tracehouse.tensors.tensor import Datatype


def test_a_clause_of_the_contract_that_differs_is_told_with_both_of_its_words() -> None:
    changes = compare(Traced([], _contract(32, "tested"), None), Traced([], _contract(1024, "proven"), None))

    assert changes.clauses == [("forward, size batch", "1 to 32 (tested)", "1 to 1,024 (proven)")]
    assert compare(Traced([], None, None), Traced([], _contract(32, "tested"), None)).clauses[0] == (
        "forward, x",
        "–",
        "FP32 [batch]",
    )


def test_an_input_that_differs_is_told_though_an_output_has_its_name() -> None:
    before, after = (Traced([], _loss(size), None) for size in (2, 3))

    assert compare(before, after).clauses == [("forward, output", "FP32 [2]", "FP32 [3]")]


def _loss(size: int) -> Contract:
    method = MethodContract(
        arguments=[Argument(name="output", structure=TensorLeaf(tensor="output"))],
        inputs=[InputSpec(name="output", datatype=Datatype.FP32, shape=(size,), example=(size,))],
        outputs=[OutputSpec(name="output", datatype=Datatype.FP32, shape=())],
        returns=TensorLeaf(tensor="output"),
        regions=[],
    )
    return Contract(methods={"forward": method})


def _contract(most: int, basis: Basis) -> Contract:
    method = MethodContract(
        arguments=[Argument(name="x", structure=TensorLeaf(tensor="x"))],
        inputs=[InputSpec(name="x", datatype=Datatype.FP32, shape=("batch",), example=(2,))],
        outputs=[],
        returns=BakedLeaf(baked=None),
        regions=[Region(spans={"batch": [Span(low=1, high=most)]}, basis=basis)],
    )
    return Contract(methods={"forward": method})
