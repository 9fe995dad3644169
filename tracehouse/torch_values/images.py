"""Images: the tensor of a picture in a PNG or JPEG file. Only a process in its jail decodes foreign bytes.

Pillow and all that it needs for these formats is imported here: in its jail, a process may be unable to import.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import torch

# MpoImagePlugin reads the JPEG files of cameras that store several pictures in one.
from PIL import Image, ImageFile, MpoImagePlugin, UnidentifiedImageError  # noqa: F401

from tracehouse.spec.image_reading import IMAGE_SIDE_MAX

# Decoded, each takes 4 bytes.
PIXELS_MAX = IMAGE_SIDE_MAX**2
_FORMATS = ("PNG", "JPEG")
_MODES = {1: "L", 3: "RGB"}  # Pillow's names, by the number of channels
CHANNELS = tuple(_MODES)  # how many an input may have

Image.preinit()


class ImageUnreadable(ValueError):
    """The file has no picture that can be an input."""


@dataclass(frozen=True)
class ImageFormat:
    """The form in which a model takes pictures. `size` is height and width; None keeps the picture's own."""

    channels: int
    dtype: torch.dtype
    size: tuple[int, int] | None = None
    channels_last: bool = False
    mean: Sequence[float] | None = None
    std: Sequence[float] | None = None

    def __post_init__(self) -> None:
        assert self.channels in CHANNELS
        assert self.dtype.is_floating_point or self.dtype is torch.uint8


def read_image(file: BinaryIO, wanted: ImageFormat) -> torch.Tensor:
    """Return the picture on the CPU: channels, height and width, or height, width and channels.

    Grey becomes equal channels, and colours become grey, if the format has so many channels. Raises ImageUnreadable,
    and MemoryError.
    """
    pixels = torch.from_numpy(_read_pixels(file, wanted))
    return _normalise(pixels if wanted.channels_last else pixels.permute(2, 0, 1).contiguous(), wanted)


def _read_pixels(file: BinaryIO, wanted: ImageFormat) -> np.ndarray:
    """Return height, width and channels as bytes."""
    try:
        with _strict_decoder(), Image.open(file, formats=_FORMATS) as image:
            _check_image(image)
            picture = image.convert(_MODES[wanted.channels])
    except (MemoryError, ImageUnreadable):
        raise
    except UnidentifiedImageError as error:  # its text has an address
        raise ImageUnreadable("it is neither PNG nor JPEG") from error
    except Exception as error:  # Pillow raises a dozen kinds for a broken file
        raise ImageUnreadable(f"it is no whole PNG or JPEG file: {error}") from error
    if wanted.size is not None and (picture.height, picture.width) != wanted.size:
        height, width = wanted.size
        picture = picture.resize((width, height), Image.Resampling.BILINEAR)
    return np.array(picture, dtype=np.uint8).reshape(picture.height, picture.width, wanted.channels)


def _check_image(image: Image.Image) -> None:
    """Raise ImageUnreadable if the picture, of which only the header is read, cannot be decoded to 1 or 3 channels."""
    if image.width * image.height > PIXELS_MAX:
        raise ImageUnreadable(f"it has {image.width} × {image.height} pixels, and {PIXELS_MAX} are the most")
    if image.has_transparency_data:
        raise ImageUnreadable(f"it is transparent ({image.mode}), and an input has 1 or 3 channels: save it without")
    # The decoder's own name of what the file stores: Pillow would cut 16 bits to 8, or clip them.
    if image.mode.startswith(("I", "F")) or any(";16" in str(tile) for tile in getattr(image, "tile", ())):
        raise ImageUnreadable("it has 16 bits for each channel: save it with 8, or send the input's values")
    if image.mode not in ("1", "L", "P", "RGB"):
        raise ImageUnreadable(f"it has {len(image.getbands())} channels ({image.mode}): save it as RGB or in grey")


@contextmanager
def _strict_decoder() -> Iterator[None]:
    """Decode whole files only, whatever the submitted code has set in Pillow; the limit on pixels is ours alone."""
    before = ImageFile.LOAD_TRUNCATED_IMAGES, Image.MAX_IMAGE_PIXELS
    ImageFile.LOAD_TRUNCATED_IMAGES, Image.MAX_IMAGE_PIXELS = False, None
    try:
        yield
    finally:
        ImageFile.LOAD_TRUNCATED_IMAGES, Image.MAX_IMAGE_PIXELS = before


def _normalise(pixels: torch.Tensor, wanted: ImageFormat) -> torch.Tensor:
    """Return floats as torchvision's ToTensor and Normalize make them; bytes stay as they are."""
    if wanted.dtype is torch.uint8:
        return pixels
    values = pixels.to(torch.float64 if wanted.dtype is torch.float64 else torch.float32) / 255
    if wanted.mean is not None:
        values = values - _beside_pixels(wanted.mean, values, wanted)
    if wanted.std is not None:
        values = values / _beside_pixels(wanted.std, values, wanted)
    return values.to(wanted.dtype)


def _beside_pixels(numbers: Sequence[float], values: torch.Tensor, wanted: ImageFormat) -> torch.Tensor:
    """Return one number, or one for each channel, in a shape that goes with the values."""
    tensor = torch.tensor(numbers, dtype=values.dtype, device="cpu")
    return tensor if wanted.channels_last else tensor.reshape(-1, 1, 1)
