"""What is worked out ahead of a contract never says anything else than the contract."""

import struct
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.serving.served_method import ServedMethod
from tracehouse.contract.buckets import BucketContract
from tracehouse.contract.contract import Batch, MethodContract
from tracehouse.contract.input_spec import InputSpec, ValueRange
from tracehouse.contract.output_spec import OutputSpec
from tracehouse.contract.regions import Region, Span
from tracehouse.contract.structure import Argument, TensorLeaf
from tracehouse.errors import ContractViolation
from tracehouse.tensors.tensor import Datatype, Tensor

BATCH = Batch(symbol="rows", up_to=6, inputs={"x": 0, "ids": 0}, outputs={"output": 0})


def contract(batch: Batch | None = BATCH, **changes: object) -> MethodContract:
    """Rows of `x` and of `ids`, whose values are 0 to 3; up to 8 rows, but not 5; beside two or four columns."""
    return MethodContract.model_validate(
        {
            "arguments": [Argument(name=name, structure=TensorLeaf(tensor=name)) for name in ("x", "ids")],
            "inputs": [
                InputSpec(name="x", datatype=Datatype.FP32, shape=("rows", "columns"), example=(2, 2)),
                InputSpec(
                    name="ids", datatype=Datatype.UINT8, shape=("rows", 2), example=(2, 2), fixed={"1": "model"},
                    values=ValueRange(low=0, high=3, basis="tested"),
                ),
            ],
            "outputs": [OutputSpec(name="output", datatype=Datatype.FP32, shape=("rows", "columns"))],
            "returns": TensorLeaf(tensor="output"),
            "regions": [
                Region(
                    spans={
                        "rows": [Span(low=0, high=4), Span(low=6, high=8)],
                        "columns": [Span(low=2, high=4, step=2)],
                    },
                    basis="proven",
                )
            ],
            "wrong": [{"rows": 5, "columns": 2}],
            "batch": batch,
            **changes,
        }
    )  # fmt: skip


def served(method: MethodContract, *, is_open: bool = False) -> ServedMethod:
    return ServedMethod([BucketContract({}, method)], is_open=is_open, memory_max_bytes=None)


def tensors(rows: int, columns: int = 2, value: int = 0) -> list[Tensor]:
    x = Tensor("x", Datatype.FP32, (rows, columns), bytes(4 * rows * columns))
    return [x, Tensor("ids", Datatype.UINT8, (rows, 2), struct.pack("B", value) * rows * 2)]


shapes = st.lists(st.integers(0, 9), min_size=1, max_size=3).map(tuple)
sent_tensors = st.lists(
    st.builds(
        lambda name, datatype, shape, value: Tensor(
            name, datatype, shape, bytes([value]) * (prod(shape) * datatype.item_bytes)
        ),
        st.sampled_from(["x", "ids", "more"]),
        st.sampled_from([Datatype.FP32, Datatype.UINT8]),
        st.one_of(shapes, st.sampled_from([(2, 2), (3, 2), (3, 4), (5, 2)])),
        st.integers(0, 5),
    ),
    max_size=3,
    unique_by=lambda tensor: tensor.name,
)  # fmt: skip


def said(accept: object, sent: list[Tensor]) -> object:
    try:
        found = accept(sent)  # type: ignore[operator]
    except ContractViolation as violation:
        return type(violation), violation.detail, violation.facts
    return found.tensors, found.warnings


@given(requests=st.lists(sent_tensors, min_size=1, max_size=8), is_open=st.booleans())
def test_remembered_or_not_the_contract_says_the_same(requests: list[list[Tensor]], is_open: bool) -> None:
    method, checked = contract(), served(contract(), is_open=is_open)
    for sent in requests * 2:
        assert said(checked.accept, sent) == said(lambda given: method.accept(given, is_open=is_open), sent)


def test_values_are_looked_at_each_time() -> None:
    checked = served(contract())

    assert checked.accept(tensors(2, value=3)).rows == 2
    with pytest.raises(ContractViolation, match="'ids' has 4"):
        checked.accept(tensors(2, value=4))


def test_rows_are_joined_as_far_as_the_certificate_and_the_contract_go() -> None:
    joining = served(contract()).accept(tensors(2)).joining

    assert joining is not None
    assert [total for total in range(1, 10) if joining.takes(total)] == [1, 2, 3, 4, 6]
    other = served(contract()).accept(tensors(1)).joining
    assert other is not None
    assert other.key == joining.key
    wide = served(contract()).accept(tensors(1, 4)).joining
    assert wide is not None
    assert wide.key != joining.key


@pytest.mark.parametrize(
    ("method", "sent"),
    [
        (contract(None), tensors(2)),
        (contract(BATCH.model_copy(update={"inputs": {"x": 0}})), tensors(2)),
        (contract(BATCH.model_copy(update={"outputs": {}})), tensors(2)),
        (contract(), tensors(0)),
    ],
    ids=["no certificate", "an input without rows", "an output without rows", "no rows"],
)
def test_what_the_certificate_does_not_cover_is_answered_alone(method: MethodContract, sent: list[Tensor]) -> None:
    assert served(method).accept(sent).joining is None


def test_rows_that_are_empty_are_answered_alone() -> None:
    """With empty keys and a NaN in one row, attention of torch (2.13) answers NaN in all rows."""
    columns = [Span(low=0, high=4, step=2)]
    region = Region(spans={"rows": [Span(low=0, high=4)], "columns": columns}, basis="proven")
    checked = served(contract(regions=[region]))

    assert checked.accept(tensors(2, 2)).joining is not None
    assert checked.accept(tensors(2, 0)).joining is None


def test_the_size_of_an_answer_is_known_where_the_contract_says_it() -> None:
    unknown = contract(outputs=[OutputSpec(name="output", datatype=Datatype.FP32, shape=("rows", -1))])

    assert served(contract()).accept(tensors(3, 4)).answer_bytes == 48
    assert served(unknown).accept(tensors(3, 4)).answer_bytes is None
