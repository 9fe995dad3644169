"""Images: the tensor of a picture, and which files have none."""

import io
import struct
import zlib
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageFile

from tests.pictures import encoded, noise, plain
from tracehouse.spec.image_format import ImageFormat
from tracehouse.tensors.tensor import Datatype
from tracehouse.torch_values.images import ImageUnreadable, read_image
from tracehouse.torch_values.tensors import datatype_of


def read(content: bytes, channels: int = 3, dtype: torch.dtype = torch.float32, **form: Any) -> torch.Tensor:
    return read_image(
        io.BytesIO(content), ImageFormat(channels=channels, datatype=datatype_of(torch.empty(0, dtype=dtype)), **form)
    )


def test_floats_are_0_to_1_with_the_channels_first() -> None:
    picture = read(plain())

    assert (picture.shape, picture.dtype, picture.is_contiguous()) == ((3, 4, 5), torch.float32, True)
    assert picture[:, 0, 0].tolist() == pytest.approx([1, 0.2, 0])


def test_bytes_are_0_to_255_and_the_channels_may_be_last() -> None:
    picture = read(plain(), dtype=torch.uint8, channels_last=True)

    assert (picture.shape, picture[3, 4].tolist()) == ((4, 5, 3), [255, 51, 0])


@pytest.mark.parametrize("channels_last", [False, True])
def test_mean_is_subtracted_and_std_divides(channels_last: bool) -> None:
    picture = read(plain(), mean=[0.5, 0.1, 0.0], std=[0.5, 0.1, 2.0], channels_last=channels_last)

    pixel = picture[0, 0] if channels_last else picture[:, 0, 0]
    assert pixel.tolist() == pytest.approx([1, 1, 0])
    assert read(plain(), mean=[1.0]).max() == 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_floats_have_the_wanted_datatype(dtype: torch.dtype) -> None:
    assert read(plain(), dtype=dtype)[0, 0, 0] == torch.ones((), dtype=dtype)


def test_height_and_width_are_the_wanted_ones_or_its_own() -> None:
    assert read(noise(40, 20), size=(7, 9)).shape == (3, 7, 9)
    assert read(noise(40, 20)).shape == (3, 20, 40)


def test_a_jpeg_is_nearly_its_picture() -> None:
    assert (read(plain(form="JPEG")) - read(plain())).abs().max() < 0.05


@pytest.mark.parametrize(
    ("content", "value"),
    [(plain("L", 51), 0.2), (plain("1", 1), 1.0), (encoded(Image.new("RGB", (5, 4), (51, 51, 51)).quantize(4)), 0.2)],
    ids=["grey", "one bit", "a palette"],
)
@pytest.mark.parametrize("channels", [1, 3])
def test_grey_and_palettes_have_as_many_channels_as_wanted(content: bytes, value: float, channels: int) -> None:
    picture = read(content, channels)

    assert picture.shape == (channels, 4, 5)
    assert picture.flatten().tolist() == pytest.approx([value] * 20 * channels)


def test_the_first_of_several_pictures_of_a_camera_is_read() -> None:
    first, second = Image.new("RGB", (5, 4), (255, 0, 0)), Image.new("RGB", (5, 4))

    assert read(encoded(first, "MPO", save_all=True, append_images=[second]))[0].min() > 0.9


def deep(bits: int, colour: int, samples: int) -> bytes:
    """A PNG that Pillow does not write."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 2, 2, bits, colour, 0, 0, 0)
    rows = zlib.compress((b"\0" + b"\x12" * (2 * samples * bits // 8)) * 2)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (plain("RGBA", (0, 0, 0, 0)), "transparent"),
        (plain("LA", (0, 0)), "transparent"),
        (plain("CMYK", (0, 0, 0, 0), form="JPEG"), "4 channels"),
        (encoded(Image.fromarray(np.full((4, 5), 1000, np.uint16))), "16 bits"),
        (deep(16, 2, 3), "16 bits"),
        (plain(form="GIF"), "neither PNG nor JPEG"),
        (b"", "neither PNG nor JPEG"),
        (b"\x89PNG\r\n\x1a\n" + b"x" * 100, "no whole PNG or JPEG"),
    ],
    ids=["rgba", "grey and alpha", "cmyk", "grey of 16 bits", "colours of 16 bits", "a gif", "nothing", "junk"],
)
def test_a_file_that_cannot_be_an_input_is_refused(content: bytes, reason: str) -> None:
    with pytest.raises(ImageUnreadable, match=reason):
        read(content)


@pytest.mark.parametrize("form", ["PNG", "JPEG"])
def test_half_a_file_is_refused_whatever_the_model_code_has_set(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    whole = noise(form=form)

    with pytest.raises(ImageUnreadable, match="truncated"):
        read(whole[: len(whole) // 2])
    assert ImageFile.LOAD_TRUNCATED_IMAGES


def test_a_bomb_is_refused_before_it_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = plain("1", 0, 40000, 40000)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    monkeypatch.setattr(Image.Image, "convert", lambda *_: pytest.fail("it was decoded"))

    assert len(bomb) < 300_000
    with pytest.raises(ImageUnreadable, match="40000 × 40000 pixels"):
        read(bomb)


def test_as_many_pixels_as_allowed_are_read() -> None:
    wanted = ImageFormat(channels=3, datatype=Datatype.FP32)

    assert read_image(io.BytesIO(plain()), wanted, pixels_max=20).shape == (3, 4, 5)
    with pytest.raises(ImageUnreadable):
        read_image(io.BytesIO(plain(width=6)), wanted, pixels_max=20)
