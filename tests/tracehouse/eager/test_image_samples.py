"""Image samples: which input a picture is, and in what form."""

import io
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.pictures import noise, plain
from tracehouse.eager.call import Call, bind
from tracehouse.eager.image_samples import read_image_sample
from tracehouse.eager.inputs import InputFiles
from tracehouse.errors import ArgumentMismatch, InputsUnreadable
from tracehouse.spec.image_reading import ImageReading

X = torch.zeros(1, 3, 8, 10)


def forward(x: Any, y: Any = None) -> Any:
    return x, y


def sample(*args: Any, content: bytes | None = None, **reading: Any) -> Call:
    files = InputFiles(lambda _: io.BytesIO(plain() if content is None else content))
    call = bind(SimpleNamespace(forward=forward), "forward", "forward", list(args), {})
    return read_image_sample(call, "cat.png", ImageReading(**reading), files, "cpu")


@pytest.mark.parametrize(
    ("example", "pixel"),
    [
        (X, (0, slice(None), 0, 0)),
        (X.permute(0, 2, 3, 1).contiguous(), (0, 0, 0)),
        (torch.zeros(4, 3, 8, 10), (3, slice(None), 7, 9)),
    ],
    ids=["NCHW", "NHWC", "a batch"],
)
def test_the_example_says_the_form(example: torch.Tensor, pixel: Any) -> None:
    made = sample(example).tensors["x"]

    assert (made.shape, made.dtype, made.is_contiguous()) == (example.shape, torch.float32, True)
    assert made[pixel].tolist() == pytest.approx([1, 0.2, 0])


def test_the_example_says_the_datatype_and_one_channel() -> None:
    grey = sample(torch.zeros(1, 8, 10, 1, dtype=torch.uint8), content=plain("L", 51)).tensors["x"]

    assert (grey.shape, grey.unique().tolist()) == ((1, 8, 10, 1), [51])


def test_the_size_is_its_own_or_the_named_one() -> None:
    assert sample(X, content=noise(33, 21), size="own").tensors["x"].shape == (1, 3, 21, 33)
    assert sample(X, size=[16, 12]).tensors["x"].shape == (1, 3, 16, 12)


def test_all_other_inputs_are_those_of_the_example() -> None:
    ids = torch.arange(3)
    made = sample(X, ids)

    assert made.tensors["y"].tolist() == [0, 1, 2]
    assert made.tensors["y"].data_ptr() != ids.data_ptr()


def test_one_of_several_is_named_and_may_have_three_dims() -> None:
    assert sample(X, X[0], input="y").tensors["y"][0].min() == 1
    assert sample(torch.zeros(1, 3, 8, 3), layout="NHWC", size="own").tensors["x"].shape == (1, 4, 5, 3)


@pytest.mark.parametrize(
    ("args", "reading", "detail", "remedy"),
    [
        ([X, X], {}, "several inputs are like images: x, y", "image.input"),
        ([torch.zeros(1, 3, 8)], {}, "no input is like an image", "four dims"),
        ([torch.zeros(1, 4, 8, 8)], {}, "no input is like an image", "1 or 3 channels"),
        ([X.long()], {}, "no input is like an image", "floats or UINT8"),
        ([X], {"input": "z"}, "no input 'z': it has x", "image.input"),
        ([torch.zeros(1, 4, 8, 8)], {"input": "x"}, "other than 1 or 3 channels", "1 or 3 channels"),
        ([X], {"layout": "NHWC"}, "other than 1 or 3 channels as NHWC", "1 or 3 channels"),
        ([X.long()], {"input": "x"}, "INT64 with 4 dims", "floats or UINT8"),
        ([torch.zeros(3, 8)], {"input": "x"}, "FP32 with 2 dims", "three or four dims"),
        ([torch.zeros(1, 3, 8, 3)], {}, "does not show where the channels are", "image.layout"),
        ([X.byte()], {"mean": [0.5]}, "UINT8, which has no mean", "leave out mean"),
        ([X], {"std": [0.5, 0.5]}, "3 channels, and std has 2 numbers", "one number"),
    ],
)
def test_a_picture_that_cannot_be_the_input_says_why(
    args: list[Any], reading: dict[str, Any], detail: str, remedy: str
) -> None:
    with pytest.raises(ArgumentMismatch) as raised:
        sample(*args, **reading)
    assert detail in raised.value.detail
    assert "cat.png" in raised.value.facts["file"]
    assert remedy in raised.value.facts["remedy"]


def test_a_file_without_a_picture_is_named() -> None:
    with pytest.raises(InputsUnreadable, match=r"'cat\.png' cannot be read: it is neither PNG nor JPEG") as raised:
        sample(X, content=b"GIF89a")
    assert "8 bits for each channel" in raised.value.facts["remedy"]
