"""Combinations of datatypes: an input may have a datatype only if all combinations with it hold."""

from collections.abc import Sequence

from tracehouse.differential.datatype_combinations import COMBINATIONS_MAX, Combination, combine, find_accepted
from tracehouse.tensors.tensor import Datatype

IDS = [Datatype.INT64, Datatype.INT32]
FLOATS = [Datatype.FP32, Datatype.FP64, Datatype.FP16, Datatype.BF16]


def test_a_datatype_that_fails_beside_another_one_is_left_out_alone() -> None:
    """Both inputs may have any datatype but float16, and y no float64 beside a float64."""

    def hold(added: Sequence[Combination]) -> bool:
        return not any(
            Datatype.FP16 in one.values() or (one.get("x"), one.get("y")) == (Datatype.FP64, Datatype.FP64)
            for one in added
        )

    found = find_accepted({"x": FLOATS[:3], "ids": [Datatype.INT64], "y": FLOATS}, hold)

    assert found == {"x": ["FP32", "FP64"], "y": ["FP32", "BF16"]}


def test_each_combination_is_asked_once_and_no_more_than_the_most() -> None:
    asked: list[Combination] = []

    def hold(added: Sequence[Combination]) -> bool:
        asked.extend(added)
        return True

    found = find_accepted(dict.fromkeys("xyz", FLOATS) | {"ids": IDS}, hold)

    assert found == {"x": FLOATS, "y": FLOATS[:2]}
    assert len(asked) == len({tuple(sorted(one.items())) for one in asked}) == COMBINATIONS_MAX - 1
    assert sorted(map(str, asked)) == sorted(map(str, combine(found)))
