"""Which methods take pictures, and in what form."""

from typing import Any

import pytest

from service.domain.errors import PictureNotTaken
from service.serving.picture_input import picture_input
from tests.contracts import method
from tracehouse.spec.image_reading import ImageReading
from tracehouse.tensors.tensor import Datatype

SPANS = {"batch": "1..8"}


def contract(*shape: Any, datatype: Datatype = Datatype.FP32, name: str = "x") -> Any:
    return method(
        {name: shape or ("batch", 3, 8, 10)}, SPANS if "batch" in (shape or ("batch",)) else {}, datatype=datatype
    )


def reading(**members: Any) -> ImageReading:
    return ImageReading(**members)


def test_the_sample_says_how_a_picture_becomes_the_input() -> None:
    given = reading(mean=[0.5], std=[0.1, 0.2, 0.3])

    found = picture_input([contract()], [given, given])

    assert (found.name, found.has_batch) == ("x", True)
    assert (found.format.channels, found.format.size, found.format.channels_last) == (3, (8, 10), False)
    assert (found.format.mean, found.format.std) == ([0.5], [0.1, 0.2, 0.3])


@pytest.mark.parametrize(
    ("shape", "members", "channels", "size", "last", "has_batch"),
    [
        ((1, 8, 10, 1), {}, 1, (8, 10), True, True),
        ((3, 8, 10), {}, 3, (8, 10), False, False),
        ((1, 3, 8, 10), {"size": [4, 5]}, 3, (4, 5), False, True),
        ((1, 3, 8, 10), {"size": "own"}, 3, None, False, True),
        ((1, 3, 8, 3), {"layout": "NHWC"}, 3, (3, 8), True, True),
    ],
)
def test_the_example_says_the_rest(
    shape: Any, members: Any, channels: int, size: Any, last: bool, has_batch: bool
) -> None:
    found = picture_input([contract(*shape)], [reading(**members)])

    assert (found.format.channels, found.format.size, found.format.channels_last) == (channels, size, last)
    assert found.has_batch == has_batch


@pytest.mark.parametrize(
    ("contracts", "readings"),
    [
        ([contract()], []),
        ([contract()], [None]),
        ([contract()], [reading(), None]),
        ([contract()], [reading(), reading(mean=[0.5])]),
        ([method({"x": (1, 3, 8, 10), "y": (1,)}, datatype=Datatype.FP32)], [reading()]),
        ([contract(4, 3, 8, 10)], [reading()]),
        ([contract(0, 3, 8, 10)], [reading()]),
        ([contract(1, 3, 8, 10), contract(1, 3, 16, 20)], [reading()]),
        ([contract(1, 2, 8, 10)], [reading()]),
        ([contract(1, 3, 8, 3)], [reading()]),
        ([contract(1, 3)], [reading()]),
        ([contract(1, 3, 8, 10, datatype=Datatype.INT64)], [reading()]),
        ([contract(1, 3, 8, 10, datatype=Datatype.UINT8)], [reading(mean=[0.5])]),
        ([contract(1, 1, 8, 10)], [reading(std=[0.1, 0.2, 0.3])]),
    ],
)  # fmt: skip
def test_whatever_is_doubtful_takes_no_picture(contracts: Any, readings: Any) -> None:
    with pytest.raises(PictureNotTaken) as refused:
        picture_input(contracts, readings)

    assert refused.value.facts.get("remedy") or "check.samples" in (PictureNotTaken.remedy() or "")


def test_buckets_take_pictures_whose_size_the_sample_says() -> None:
    both = [contract(1, 3, 8, 10), contract(1, 3, 16, 20)]

    assert picture_input(both, [reading(size="own")]).format.size is None
    assert picture_input(both, [reading(size=[16, 20])]).format.size == (16, 20)
