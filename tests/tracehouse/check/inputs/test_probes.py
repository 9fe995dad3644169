"""Probes: the example with other values, in the same shapes and datatypes."""

from typing import Any

import pytest
import torch

from tracehouse.check.inputs.probes import generate_probes
from tracehouse.eager.call import Call, bind
from tracehouse.eager.model import Function


def call(*args: Any) -> Call:
    names = ", ".join(f"x{place}" for place in range(len(args)))
    return bind(Function(eval(f"lambda {names}: 0")), "forward", "forward", args, {})


def probed(tensor: torch.Tensor) -> dict[str, Any]:
    """Return the probes that are not drawn at random."""
    found = generate_probes(call(tensor), searching=False)
    return {name: probe.tensors["x0"].tolist() for name, probe in found if name != "probe: random"}


def test_floats_are_negated_zeroed_and_moved() -> None:
    assert probed(torch.tensor([1.0, -2.0])) == {
        "probe: negated": [-1.0, 2.0],
        "probe: zeros": [0.0, 0.0],
        "probe: reversed order": [-2.0, 1.0],
        "probe: huge": [10000.0, -20000.0],
    }


def test_integers_stay_within_the_range_that_was_seen() -> None:
    assert probed(torch.tensor([3, 9, 5])) == {
        "probe: reversed order": [5, 9, 3],
    }
    found = search(torch.tensor([3, 9, 5]))
    assert found["probe: smallest integers"]["x0"] == [3, 3, 3]
    assert found["probe: largest integers"]["x0"] == [9, 9, 9]


def test_booleans_are_flipped_and_set() -> None:
    assert probed(torch.tensor([True, False, False])) == {
        "probe: reversed order": [False, False, True],
        "probe: booleans flipped": [False, True, True],
    }
    assert {"x0": [True, True]} in search(torch.tensor([True, False])).values()


def test_a_probe_that_changes_nothing_is_left_out() -> None:
    assert probed(torch.zeros(2, 2)) == {}
    assert probed(torch.ones(0)) == {}


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.uint8, torch.uint16, torch.uint32, torch.uint64]
)
def test_every_dtype_can_be_probed(dtype: torch.dtype) -> None:
    tensor = torch.tensor([1, 2, 3]).to(dtype)

    assert all(probe.tensors["x0"].dtype is dtype for _, probe in generate_probes(call(tensor), searching=False))
    assert probed(tensor)["probe: reversed order"] == [3, 2, 1]


def test_what_is_no_tensor_stays() -> None:
    for _, probe in generate_probes(call([torch.ones(1), torch.tensor([1, 2])], 3.0), searching=True):
        assert probe.arguments["x1"] == 3.0


def test_the_example_is_not_touched() -> None:
    tensor = torch.tensor([1.0, -2.0])
    for _, probe in generate_probes(call(tensor), searching=False):
        probe.tensors["x0"].zero_()

    assert tensor.tolist() == [1.0, -2.0]


def search(*tensors: torch.Tensor, deep: bool = False, **bounds: tuple[int, int]) -> dict[str, dict[str, Any]]:
    found = generate_probes(call(*tensors), searching=True, deep=deep, bounds=bounds)
    return {name: {path: t.tolist() for path, t in probe.tensors.items()} for name, probe in found}


@pytest.mark.parametrize(("constant", "others"), [(0, {1, -1}), (1, {0}), (3, {4, 2})])
def test_integers_that_are_all_alike_get_other_values(constant: int, others: set[int]) -> None:
    found = {probe["x0"][1] for probe in search(torch.full((3,), constant)).values()}

    assert others <= found


def test_one_element_alone_is_changed() -> None:
    found = [probe["x0"] for probe in search(torch.tensor([1, 1, 1])).values()]

    assert [0, 1, 1] in found
    assert [1, 1, 0] in found
    assert [False, True] in [probe["x0"] for probe in search(torch.tensor([True, True])).values()]


def test_one_input_alone_is_changed() -> None:
    found = search(torch.tensor([1.0]), torch.tensor([2.0]))

    assert found["probe: 'x1' alone, negated"] == {"x0": [1.0], "x1": [-2.0]}


def test_equal_inputs_are_made_unequal_and_unequal_ones_equal() -> None:
    same, other = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])

    assert any(probe["x0"] != probe["x1"] for probe in search(same, same).values())
    made_equal = search(same, other)["probe: like inputs made equal"]
    assert made_equal["x0"] == made_equal["x1"]


def test_floats_become_huge_and_tiny_and_not_finite() -> None:
    found = search(torch.tensor([1.0, 2.0]))

    assert found["probe: huge"]["x0"] == [10000.0, 20000.0]
    assert found["probe: one infinite"]["x0"] == [float("inf"), 2.0]
    assert str(found["probe: one not a number"]["x0"]) == "[nan, 2.0]"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.uint8, torch.uint16, torch.uint64, torch.int8])
def test_every_dtype_can_be_searched(dtype: torch.dtype) -> None:
    for values in ([1, 1, 1], [1, 2, 3], [0, 0, 0]):
        found = generate_probes(call(torch.tensor(values).to(dtype)), searching=True)

        assert all(probe.tensors["x0"].dtype is dtype for _, probe in found)


def test_integers_with_a_known_range_are_tried_at_its_ends() -> None:
    found = search(torch.tensor([3, 9, 5]), x0=(0, 99))

    assert found["probe: integers at both ends of their range"]["x0"] == [99, 0, 99]
    assert found["probe: integers at the largest of their range"]["x0"] == [99, 99, 99]
    assert found["probe: integers at the smallest of their range"]["x0"] == [0, 0, 0]


def test_masks_are_padded_on_either_side() -> None:
    found = search(torch.ones(3, 4, dtype=torch.int64), deep=True)

    assert found["probe: masks padded right"]["x0"] == [[1, 1, 0, 0]] * 3
    assert found["probe: masks padded left"]["x0"] == [[0, 0, 1, 1]] * 3
    assert found["probe: masks of one token"]["x0"] == [[1, 0, 0, 0]] * 3
    assert found["probe: masks padded right, each row further"]["x0"] == [[1, 1, 1, 1], [1, 1, 1, 0], [1, 1, 0, 0]]


def test_ids_are_no_mask() -> None:
    assert not [name for name in search(torch.tensor([5, 1, 0]), deep=True) if "mask" in name]


def test_a_deep_search_tries_more_than_a_search_and_that_more_than_neither() -> None:
    example = call(torch.tensor([1.0, -2.0]), torch.tensor([[1, 5], [2, 2]]))
    few, more, all_ = (
        {name for name, _ in generate_probes(example, searching=searching, deep=deep)}
        for searching, deep in ((False, False), (True, False), (True, True))
    )

    assert few < more < all_


def test_probes_are_the_same_each_time() -> None:
    example = call(torch.tensor([1.0, -2.0]), torch.tensor([4, 5]))
    first, second = (list(generate_probes(example, searching=True, deep=True)) for _ in range(2))

    assert [name for name, _ in first] == [name for name, _ in second]
    assert all(str(one.tensors) == str(other.tensors) for (_, one), (_, other) in zip(first, second, strict=True))


def test_drawing_leaves_torchs_generator_alone() -> None:
    before = torch.get_rng_state()
    list(generate_probes(call(torch.tensor([1.0, -2.0])), searching=True, deep=True))

    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 0), (2, 3, 4, 5)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.uint64, torch.bool])
def test_every_shape_can_be_searched(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    found = list(generate_probes(call(torch.ones(shape).to(dtype)), searching=True, deep=True))

    assert all(probe.tensors["x0"].shape == shape and probe.tensors["x0"].dtype is dtype for _, probe in found)
