"""Images: the tensor of a picture in a PNG or JPEG file. Only a process in its jail decodes foreign bytes.

Pillow and all that it needs for these formats is imported here: in its jail, a process may be unable to import.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO

import numpy as np
import torch

# MpoImagePlugin reads the JPEG files of cameras that store several pictures in one.
from PIL import Image, ImageFile, MpoImagePlugin, UnidentifiedImageError  # noqa: F401

from tracehouse.spec.image_format import CHANNELS, ImageFormat
from tracehouse.spec.image_reading import PIXELS_MAX
from tracehouse.tensors.tensor import Datatype
from tracehouse.torch_values.tensors import DTYPES

_FORMATS = ("PNG", "JPEG")
_MODES = dict(zip(CHANNELS, ("L", "RGB"), strict=True))  # Pillow's names

Image.preinit()


class ImageUnreadable(ValueError):
    """The file has no picture that can be an input."""


def read_image(file: BinaryIO, wanted: ImageFormat, pixels_max: int = PIXELS_MAX) -> torch.Tensor:
    """Return the picture on the CPU: channels, height and width, or height, width and channels.

    Grey becomes equal channels, and colours become grey, if the format has so many channels. A picture with more pixels
    than `pixels_max` is not decoded. Raises ImageUnreadable, and MemoryError.
    """
    pixels = torch.from_numpy(_read_pixels(file, wanted, pixels_max))
    return _normalise(pixels if wanted.channels_last else pixels.permute(2, 0, 1).contiguous(), wanted)


def _read_pixels(file: BinaryIO, wanted: ImageFormat, pixels_max: int) -> np.ndarray:
    """Return height, width and channels as bytes."""
    try:
        with _strict_decoder(), Image.open(file, formats=_FORMATS) as image:
            _check_image(image, pixels_max)
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


def _check_image(image: Image.Image, pixels_max: int) -> None:
    """Raise ImageUnreadable if the picture, of which only the header is read, cannot be decoded to 1 or 3 channels."""
    if image.width * image.height > pixels_max:
        raise ImageUnreadable(f"it has {image.width} × {image.height} pixels, and {pixels_max} are the most")
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
    if wanted.datatype is Datatype.UINT8:
        return pixels
    values = pixels.to(torch.float64 if wanted.datatype is Datatype.FP64 else torch.float32) / 255
    if wanted.mean is not None:
        values = values - _beside_pixels(wanted.mean, values, wanted)
    if wanted.std is not None:
        values = values / _beside_pixels(wanted.std, values, wanted)
    return values.to(DTYPES[wanted.datatype])


def _beside_pixels(numbers: Sequence[float], values: torch.Tensor, wanted: ImageFormat) -> torch.Tensor:
    """Return one number, or one for each channel, in a shape that goes with the values."""
    tensor = torch.tensor(numbers, dtype=values.dtype, device="cpu")
    return tensor if wanted.channels_last else tensor.reshape(-1, 1, 1)
