"""Closeness where bytes are all that there is: what children send, and leaves too large to be compared at once."""

from typing import Any

import pytest

from tracehouse.contract.structure import BakedLeaf, DictNode, ListNode, TensorLeaf, TupleNode
from tracehouse.differential import comparison
from tracehouse.differential.comparison import Answer, compare, compare_leaf
from tracehouse.tensors.tensor import Datatype, Tensor, pack


def t(datatype: Datatype, data: list[Any], shape: tuple[int, ...] | None = None) -> Tensor:
    shape = (len(data),) if shape is None else shape
    return Tensor("output", datatype, shape, pack(datatype, shape, data))


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "_CHUNK", 4)


@pytest.mark.usefixtures("small_chunks")
def test_the_largest_difference_is_found_wherever_it_is() -> None:
    eager = [1.0] * 10
    for place in range(10):
        compared = compare_leaf(
            t(Datatype.FP32, eager, (2, 5)), t(Datatype.FP32, _but(eager, place, 3.0), (2, 5)), 1e-5
        )

        assert compared.largest == 2.0
        assert compared.difference is not None
        assert compared.difference.index == [place // 5, place % 5]


@pytest.mark.usefixtures("small_chunks")
def test_the_scale_is_that_of_the_whole_leaf() -> None:
    eager = [1.0] * 8 + [500.0]

    assert compare_leaf(t(Datatype.FP32, eager), t(Datatype.FP32, _but(eager, 0, 1.004)), 1e-5).agrees
    assert not compare_leaf(t(Datatype.FP32, eager), t(Datatype.FP32, _but(eager, 0, 1.01)), 1e-5).agrees


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("masks", [[-3.4028235e38], [-3.4028235e38] * 20, [1e7]], ids=["one", "most", "a constant"])
def test_a_value_out_of_all_proportion_does_not_make_everything_close(masks: list[float]) -> None:
    eager = [-2.0, -3.0, -4.0, -5.0, *masks]

    assert compare_leaf(t(Datatype.FP32, eager), t(Datatype.FP32, _but(eager, 0, -2.00001)), 1e-5).agrees
    assert not compare_leaf(t(Datatype.FP32, eager), t(Datatype.FP32, _but(eager, 0, -2.5)), 1e-5).agrees


@pytest.mark.usefixtures("small_chunks")
def test_what_is_not_finite_on_one_side_alone_comes_before_all_differences() -> None:
    eager = [1.0] * 10
    compared = compare_leaf(t(Datatype.FP32, eager), t(Datatype.FP32, ["NaN"] + [5.0] * 9), 1e-5)
    later = compare_leaf(t(Datatype.FP32, eager), t(Datatype.FP32, [5.0] * 9 + ["NaN"]), 1e-5)

    assert (compared.largest, later.largest) == (None, None)
    assert compared.difference is not None
    assert later.difference is not None
    assert (compared.difference.index, later.difference.index) == ([0], [9])


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("place", [0, 5, 9])
def test_integers_differ_by_the_last_bit_wherever_it_is(place: int) -> None:
    eager = [2**62] * 10
    compared = compare_leaf(t(Datatype.INT64, eager), t(Datatype.INT64, _but(eager, place, 2**62 + 1)), 1.0)

    assert compared.difference is not None
    assert compared.difference.index == [place]


def test_a_difference_beyond_what_a_float_can_hold_is_one() -> None:
    compared = compare_leaf(t(Datatype.FP64, [1.7e308]), t(Datatype.FP64, [-1.7e308]), 1e-5)

    assert not compared.agrees


def test_every_byte_but_zero_is_true() -> None:
    said = Tensor("output", Datatype.BOOL, (2,), b"\x02\x00")

    assert compare_leaf(t(Datatype.BOOL, [True, False]), said, 0.0).agrees
    assert not compare_leaf(t(Datatype.BOOL, [False, False]), said, 0.0).agrees


def test_an_immense_shape_of_nothing_is_compared() -> None:
    empty = Tensor("output", Datatype.FP32, (0, *[2**48] * 31), b"")

    assert compare_leaf(empty, empty, 0.0).agrees


@pytest.mark.parametrize(
    ("returns", "other", "leaf"),
    [
        (TensorLeaf(tensor="output"), TupleNode(tuple=[]), "output"),
        (ListNode(list=[]), TupleNode(tuple=[]), "output"),
        (TupleNode(tuple=[BakedLeaf(baked=1)]), TupleNode(tuple=[BakedLeaf(baked=2)]), "output.0"),
        (DictNode(mapping={"a": BakedLeaf(baked=1)}), DictNode(mapping={"b": BakedLeaf(baked=1)}), "output"),
    ],
)
def test_what_nests_otherwise_differs_where_it_does(returns: Any, other: Any, leaf: str) -> None:
    difference = compare(Answer(returns, {}), Answer(other, {}), 1e-5).difference

    assert difference is not None
    assert difference.leaf == leaf


def _but(values: list[Any], place: int, value: Any) -> list[Any]:
    return [*values[:place], value, *values[place + 1 :]]
