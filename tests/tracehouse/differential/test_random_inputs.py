"""Fresh inputs: like the example, and not it."""

from itertools import islice
from typing import Any

import numpy as np
import pytest

from tracehouse.differential import random_inputs
from tracehouse.tensors.tensor import Datatype, Tensor, pack, unpack


def t(datatype: Datatype, data: list[Any], shape: tuple[int, ...] | None = None) -> Tensor:
    shape = (len(data),) if shape is None else shape
    return Tensor("x", datatype, shape, pack(datatype, shape, data))


def drawn(*example: Tensor, rounds: int = 12) -> list[list[list[Any]]]:
    """The values of each tensor, round by round."""
    found = islice(random_inputs.draw_rounds(example, np.random.default_rng(0)), rounds)
    return [[unpack(tensor.datatype, tensor.data) for tensor in inputs] for inputs in found]


@pytest.mark.parametrize("datatype", Datatype)
def test_every_datatype_is_varied_and_keeps_its_shape(datatype: Datatype) -> None:
    values = [True, False, True, True] if datatype is Datatype.BOOL else [0, 1, 2, 5]
    example = t(datatype, values, (2, 2))

    inputs = list(islice(random_inputs.draw_rounds([example], np.random.default_rng(0)), 12))

    assert len(inputs) == 12
    for (tensor,) in inputs:
        assert tensor.spec == example.spec
        assert len(tensor.data) == example.spec.byte_size
        assert tensor.data != example.data


def test_floats_come_with_both_signs_and_near_the_examples_own() -> None:
    example = [1.0, 2.0, 3.0, 4.0]
    rounds = [values for (values,) in drawn(t(Datatype.FP32, example))]

    assert any(min(values) < 0 < max(values) for values in rounds)
    assert any(values != example and np.allclose(values, example, rtol=0.5) for values in rounds)
    assert any(sorted(values) == example for values in rounds)
    assert all(np.isfinite(values).all() for values in rounds)


def test_integers_stay_within_what_was_seen() -> None:
    rounds = [values for (values,) in drawn(t(Datatype.INT64, [3, 9, 4, 3]))]

    assert len({tuple(values) for values in rounds}) > 1
    assert all(3 <= value <= 9 for values in rounds for value in values)


@pytest.mark.parametrize(("value", "legal"), [(1, {0, 1}), (0, {0, 1}), (7, {6, 7}), (-3, {-3, -2})])
def test_integers_that_are_all_alike_are_varied_by_one(value: int, legal: set[int]) -> None:
    rounds = [values for (values,) in drawn(t(Datatype.INT64, [value] * 4))]

    assert rounds
    assert {number for values in rounds for number in values} <= legal


@pytest.mark.parametrize("values", [[0.0], ["NaN", "Infinity"], [1e38, -1e38], [3.0]])
def test_floats_of_no_spread_or_none_that_is_finite_are_varied(values: list[Any]) -> None:
    rounds = [varied for (varied,) in drawn(t(Datatype.FP32, values))]

    assert len(rounds) == 12
    assert all(varied != values for varied in rounds)


def test_each_draw_is_another() -> None:
    example = [t(Datatype.FP32, [1.0, 2.0, 3.0, 4.0])]
    first, second = (next(random_inputs.draw_rounds(example, np.random.default_rng(seed)))[0].data for seed in (1, 2))

    assert first != second


def test_where_nothing_can_be_varied_there_is_no_round() -> None:
    assert drawn() == []
    assert drawn(t(Datatype.FP32, [], (0, 3))) == []


def test_what_has_no_values_goes_along_with_what_has() -> None:
    rounds = drawn(t(Datatype.FP32, [], (0, 3)), t(Datatype.BOOL, [True, True]))

    assert rounds
    assert all(empty == [] for empty, _ in rounds)


@pytest.mark.parametrize("datatype", Datatype)
def test_inputs_of_other_shapes_have_the_examples_kind_of_values(datatype: Datatype) -> None:
    values = [True, False, True, True] if datatype is Datatype.BOOL else [0, 1, 2, 5]
    example = t(datatype, values, (2, 2))

    for number in range(6):
        (tensor,) = random_inputs.draw_sized([example], {"x": (3, 7)}, number, np.random.default_rng(number))
        assert (tensor.datatype, tensor.shape) == (datatype, (3, 7))
        assert len(tensor.data) == 21 * datatype.item_bytes
        if datatype.is_integer:
            assert set(unpack(datatype, tensor.data)) <= {0, 1, 2, 3, 4, 5}


def test_integers_are_drawn_from_all_that_is_said_to_be_legal() -> None:
    example = t(Datatype.INT64, [3, 4])
    drawn = [
        random_inputs.draw_sized([example], {"x": (50,)}, number, np.random.default_rng(0), {"x": (0, 9)})[0]
        for number in range(6)
    ]

    seen = {value for tensor in drawn for value in unpack(Datatype.INT64, tensor.data)}
    assert seen == set(range(10))


def test_an_example_is_repeated_or_cut_off_in_its_order() -> None:
    (tensor,) = random_inputs.tile([t(Datatype.INT64, [1, 2, 3, 4, 5, 6], (2, 3))], {"x": (3, 2)})

    assert unpack(Datatype.INT64, tensor.data) == [1, 2, 4, 5, 1, 2]


def test_an_example_without_values_becomes_zeros() -> None:
    example = t(Datatype.FP32, [], (0, 3))

    assert unpack(Datatype.FP32, random_inputs.tile([example], {"x": (2, 3)})[0].data) == [0.0] * 6
    assert (
        unpack(Datatype.FP32, random_inputs.draw_sized([example], {"x": (2, 3)}, 0, np.random.default_rng(0))[0].data)
        == [0.0] * 6
    )


def test_offsets_stay_in_order() -> None:
    offsets = Tensor("offsets", Datatype.INT64, (2,), np.array([0, 3]).tobytes())
    drawn = random_inputs.draw_sized([offsets], {"offsets": (9,)}, 0, np.random.default_rng(0))
    made = [np.frombuffer(one.data, np.int64) for one in (*drawn, *random_inputs.tile([offsets], {"offsets": (9,)}))]
    assert all((np.diff(values) >= 0).all() for values in made)
