"""Example inputs as a shell writes them."""

from pathlib import Path

import pytest
import typer

from service.cli.example_inputs import ShellInputs, Uploads


def random(shape: list[int], seed: int, datatype: str = "FP32", **drawn: float) -> dict[str, object]:
    return {"datatype": datatype, "shape": shape, "random": {"seed": seed, **drawn}}


def parse(*texts: str, seed: int = 0) -> ShellInputs:
    return ShellInputs.parse([*texts], seed, Uploads())


def test_a_shape_is_a_random_tensor_and_each_has_a_seed_of_its_own() -> None:
    assert parse("1x3", "scalar", seed=7).args == [random([1, 3], 7), random([], 8)]


def test_a_name_a_datatype_and_a_range_can_be_given() -> None:
    inputs = parse("ids=2x8:INT64@0..1000", "x=4@-0.5..0.5")

    assert inputs.args == []
    assert inputs.kwargs == {
        "ids": random([2, 8], 0, "INT64", low=0.0, high=1000.0),
        "x": random([4], 1, low=-0.5, high=0.5),
    }


def test_a_datatype_may_have_the_name_that_torch_has_for_it() -> None:
    texts = ("2:int64", "2:float32", "2:bfloat16", "2:bool", "2:Fp16")

    assert [one["datatype"] for one in parse(*texts).args] == ["INT64", "FP32", "BF16", "BOOL", "FP16"]


def test_a_datatype_that_is_none_is_told_which_there_are() -> None:
    with pytest.raises(typer.BadParameter, match=r"no datatype long; there are BOOL.*INT64"):
        parse("2:long")


def test_what_is_no_tensor_is_a_plain_value() -> None:
    inputs = parse("0.25", "1e-3", "-2.", "int:-3", "true", "kind='mean'", 'name="a,b=c"', "flag=false", "mask=null")

    assert inputs.args == [0.25, 0.001, -2.0, -3, True]
    assert [type(value) for value in inputs.args] == [float, float, float, int, bool]
    assert inputs.kwargs == {"kind": "mean", "name": "a,b=c", "flag": False, "mask": None}


def test_a_bare_integer_is_a_shape() -> None:
    assert parse("n=3").kwargs == {"n": random([3], 0)}


def test_a_tensor_of_no_dimensions_has_a_datatype_and_a_range() -> None:
    assert parse("scalar:INT64@1..5").args == [random([], 0, "INT64", low=1.0, high=5.0)]


def test_inputs_between_commas_may_have_commas_in_quotes() -> None:
    inputs = ShellInputs.parse_list("1x2,temperature=2.0,kind='a,b',", 0, Uploads())

    assert inputs.args == [random([1, 2], 0)]
    assert inputs.kwargs == {"temperature": 2.0, "kind": "a,b"}


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two files of one name."""
    monkeypatch.chdir(tmp_path)
    for name in ("a/inputs.npz", "b/inputs.npz"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    return tmp_path


def test_a_file_is_uploaded_once_however_often_it_is_named(data: Path) -> None:
    uploads = Uploads()

    inputs = ShellInputs.parse(["x=a/inputs.npz#x", "a/inputs.npz#y"], 0, uploads)

    assert inputs.kwargs == {"x": {"file": "inputs.npz", "key": "x"}}
    assert inputs.args == [{"file": "inputs.npz", "key": "y"}]
    assert uploads.files == {"inputs.npz": Path("a/inputs.npz")}


def test_two_files_of_one_name_are_told_apart(data: Path) -> None:
    uploads = Uploads()

    inputs = ShellInputs.parse(["a/inputs.npz", "b/inputs.npz"], 0, uploads)

    names = [given["file"] for given in inputs.args]
    assert [uploads.files[name] for name in names] == [Path("a/inputs.npz"), Path("b/inputs.npz")]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1x",
        "x=",
        "1x2:",
        "1x2@0",
        "inputs.csv",
        "x=not-there.npz",
        "True",
        "1e999",
        "int:",
        "int:1.5",
        "int:1" + "0" * 18,
        "'a",
    ],
    ids=str,
)
def test_what_is_no_input_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse(text)


def test_an_input_that_is_given_twice_is_refused() -> None:
    with pytest.raises(typer.BadParameter, match="input 'x' is given twice"):
        parse("x=1x2", "y=1", "x=1x3")


def test_what_cannot_be_read_is_told_with_what_can() -> None:
    with pytest.raises(typer.BadParameter, match=r"1x3x224x224.*\.npz.*int:3, true"):
        parse("True")
