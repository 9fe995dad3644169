"""Example inputs as a shell writes them."""

from pathlib import Path

import pytest
import typer

from service.cli.inputs import ShellInputs


def random(shape: list[int], seed: int, datatype: str = "FP32", **drawn: float) -> dict[str, object]:
    return {"datatype": datatype, "shape": shape, "random": {"seed": seed, **drawn}}


def test_a_shape_is_a_random_tensor_and_each_has_a_seed_of_its_own() -> None:
    assert ShellInputs.parse(["1x3", "scalar"], seed=7).args == [random([1, 3], 7), random([], 8)]


def test_a_name_a_datatype_and_a_range_can_be_given() -> None:
    inputs = ShellInputs.parse(["ids=2x8:INT64@0..1000", "x=4@-0.5..0.5"], seed=0)

    assert inputs.args == []
    assert inputs.kwargs == {
        "ids": random([2, 8], 0, "INT64", low=0.0, high=1000.0),
        "x": random([4], 1, low=-0.5, high=0.5),
    }


def test_a_file_is_uploaded_once_however_often_it_is_named() -> None:
    inputs = ShellInputs.parse(["x=data/inputs.npz#x", "data/inputs.npz#y", "one.safetensors"], seed=0)

    assert inputs.kwargs == {"x": {"file": "inputs.npz", "key": "x"}}
    assert inputs.args == [{"file": "inputs.npz", "key": "y"}, {"file": "one.safetensors"}]
    assert inputs.files == [Path("data/inputs.npz"), Path("one.safetensors")]


@pytest.mark.parametrize("text", ["", "1x", "x=", "1x2:", "1x2@0", "inputs.csv"])
def test_what_is_no_input_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        ShellInputs.parse([text], seed=0)
