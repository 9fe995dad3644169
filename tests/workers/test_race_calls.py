"""The calls of a race go to the ends of the contract, and to values at which fast code is known to be wrong."""

from typing import Any

import numpy as np
import pytest

from tracehouse.contract.contract import Batch, MethodClaim, MethodContract
from tracehouse.contract.input_spec import InputSpec, ValueRange
from tracehouse.contract.output_spec import OutputSpec
from tracehouse.contract.regions import Region, Span
from tracehouse.contract.structure import Argument, TensorLeaf
from tracehouse.tensors.tensor import Datatype, Tensor, array
from workers.race_calls import RaceCalls

X = Tensor("x", Datatype.FP32, (4, 3), np.arange(12, dtype="<f4").tobytes())
IDS = Tensor("ids", Datatype.INT64, (4,), np.array([1, 2, 3, 4], "<i8").tobytes())
ROWS = Region(spans={"batch": [Span(low=0, high=100_000)]}, basis="proven")


def contract(**claim: Any) -> MethodContract:
    one = MethodContract(
        arguments=[Argument(name=name, structure=TensorLeaf(tensor=name)) for name in ("x", "ids")],
        inputs=[InputSpec.from_example(X.spec), InputSpec.from_example(IDS.spec)],
        outputs=[OutputSpec(name="output", datatype=Datatype.FP32, shape=(4, 3))],
        returns=TensorLeaf(tensor="output"),
    )
    shapes = {"x": ("batch", 3), "ids": ("batch",)}
    return one.with_claim(MethodClaim(**{"shapes": shapes, "regions": [ROWS]} | claim))


def calls(method: MethodContract) -> RaceCalls:
    return RaceCalls("forward", method, [[X, IDS]], seed=0)


def rows(compared: list[Tensor]) -> int:
    return compared[0].shape[0]


def test_calls_have_the_smallest_size_the_largest_of_a_mebibyte_and_some_between() -> None:
    sizes = {rows(call.inputs) for call in calls(contract()).compared()}

    assert {0, 4} <= sizes
    largest = max(sizes)
    assert 2**18 < largest * (3 * 4 + 8) <= 2**20
    assert any(4 < size < largest for size in sizes)


def test_calls_have_the_smallest_and_the_largest_size_of_each_region() -> None:
    spans = [(1, 40), (100, 140), (1000, 1040), (20_000, 20_040)]
    regions = [Region(spans={"batch": [Span(low=low, high=high)]}, basis="proven") for low, high in spans]

    sizes = {rows(call.inputs) for call in calls(contract(regions=regions)).compared()}

    assert {size for ends in spans for size in ends} <= sizes


def test_the_contract_takes_all_calls() -> None:
    method = contract(values={"ids": ValueRange(low=0, high=9, basis="proven")})

    for call in calls(method).compared():
        assert method.accept(call.inputs).tensors == call.inputs


def test_calls_have_all_datatypes() -> None:
    method = contract(datatypes={"x": [Datatype.FP32, Datatype.FP64], "ids": [Datatype.INT64, Datatype.INT32]})

    seen = {tuple(one.datatype for one in call.inputs) for call in calls(method).compared()}

    assert seen == {(x, ids) for x in (Datatype.FP32, Datatype.FP64) for ids in (Datatype.INT64, Datatype.INT32)}


@pytest.mark.parametrize("is_odd", [np.isnan, np.isposinf, np.isneginf], ids=["not a number", "inf", "-inf"])
def test_calls_have_numbers_that_are_not_finite(is_odd: Any) -> None:
    assert any(is_odd(array(Datatype.FP32, call.inputs[0].data)).any() for call in calls(contract()).compared())


def test_calls_have_the_largest_floats_of_a_form_for_usual_values() -> None:
    """The largest of the example is 11."""
    largest = {
        (float(values.min(initial=0)), float(values.max(initial=0)))
        for call in calls(contract()).compared()
        for values in [array(Datatype.FP32, call.inputs[0].data)]
    }

    assert {(-1100.0, 1100.0), (0.0, 1100.0), (-1100.0, 0.0)} <= largest


def test_calls_have_integers_that_no_table_has_unless_the_contract_refuses_them() -> None:
    def ids(method: MethodContract) -> set[int]:
        compared = calls(method).compared()
        return {int(one) for call in compared for one in array(Datatype.INT64, call.inputs[1].data)}

    assert {-1, -(2**63), 2**63 - 1} <= ids(contract())
    within = ids(contract(values={"ids": ValueRange(low=0, high=9, basis="proven")}))
    assert (min(within), max(within)) == (0, 9)


def test_calls_have_masks_that_take_all_or_nothing() -> None:
    mask = Tensor("mask", Datatype.BOOL, (4,), bytes([1, 0, 1, 1]))
    method = MethodContract(
        arguments=[Argument(name=name, structure=TensorLeaf(tensor=name)) for name in ("mask", "ids")],
        inputs=[InputSpec.from_example(mask.spec), InputSpec.from_example(IDS.spec)],
        outputs=[OutputSpec(name="output", datatype=Datatype.FP32, shape=(4, 3))],
        returns=TensorLeaf(tensor="output"),
    )

    compared = [call.inputs for call in RaceCalls("forward", method, [[mask, IDS]], seed=0).compared()]

    assert {bytes(4), bytes([1] * 4)} <= {bytes(one[0].data) for one in compared if one[1] == IDS}
    assert bytes(4 * 8) in {bytes(one[1].data) for one in compared if one[0] == mask}


def test_rows_are_joined_as_far_as_the_certificate_goes() -> None:
    batch = Batch(symbol="batch", up_to=32, inputs={"x": 0, "ids": 0}, outputs={"output": 0})

    joined = calls(contract(batch=batch)).joined()

    assert [sum(map(rows, one.requests)) for one in joined] == [2, 32]
    assert calls(contract()).joined() == []


def test_the_example_the_smallest_and_the_largest_are_timed() -> None:
    timed = calls(contract()).timed()

    assert timed[0].inputs == [X, IDS]
    assert len({rows(call.inputs) for call in timed}) == len(timed) > 1
