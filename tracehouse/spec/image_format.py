"""Image formats: the form in which an input takes pictures, as its datatype and shape and an image reading say it."""

from collections.abc import Sequence

from tracehouse.frozen import Frozen
from tracehouse.spec.image_reading import ImageReading
from tracehouse.tensors.tensor import Datatype

# How many channels an input may have.
CHANNELS = (1, 3)


class NotAnImage(ValueError):
    """The input takes no pictures: why, and what to do about it."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.reason, self.remedy = reason, remedy


class ImageFormat(Frozen):
    """The form in which a model takes pictures: floats or UINT8. `size` is height and width; None keeps the picture's
    own."""

    channels: int
    datatype: Datatype
    size: tuple[int, int] | None = None
    channels_last: bool = False
    mean: list[float] | None = None
    std: list[float] | None = None


def is_like_image(datatype: Datatype | None, shape: Sequence[int]) -> bool:
    """Whether an input of the datatype and the shape is most likely a batch of pictures."""
    return len(shape) == 4 and _takes_pixels(datatype) and bool(_layouts(shape))


def image_format(datatype: Datatype | None, shape: Sequence[int], reading: ImageReading) -> ImageFormat:
    """Return the form of pictures for an input whose example has this datatype and shape. Raises NotAnImage."""
    if datatype is None or len(shape) not in (3, 4) or not _takes_pixels(datatype):
        raise NotAnImage(
            f"it is {datatype or 'of another kind'} with {len(shape)} dims",
            "name an input of floats or UINT8 with three or four dims",
        )
    channels_last = _layout(shape, reading) == "NHWC"
    *_, height, width, channels = shape if channels_last else (*shape[-2:], shape[-3])
    for name, numbers in (("mean", reading.mean), ("std", reading.std)):
        if numbers is not None and datatype is Datatype.UINT8:
            raise NotAnImage(f"it is UINT8, which has no {name}", "leave out mean and std")
        if numbers is not None and len(numbers) not in (1, channels):
            raise NotAnImage(
                f"it has {channels} channels, and {name} has {len(numbers)} numbers",
                f"give {name} as one number, or as one for each channel",
            )
    sizes = {"example": (height, width), "own": None}
    return ImageFormat(
        channels=channels,
        datatype=datatype,
        size=sizes[reading.size] if isinstance(reading.size, str) else (reading.size[0], reading.size[1]),
        channels_last=channels_last,
        mean=reading.mean,
        std=reading.std,
    )


def _takes_pixels(datatype: Datatype | None) -> bool:
    return datatype is not None and (datatype.is_float or datatype is Datatype.UINT8)


def _layouts(shape: Sequence[int]) -> list[str]:
    """Return the layouts that the sizes show."""
    return [layout for layout, dim in (("NCHW", -3), ("NHWC", -1)) if shape[dim] in CHANNELS]


def _layout(shape: Sequence[int], reading: ImageReading) -> str:
    possible = _layouts(shape)
    if not possible or (reading.layout is not None and reading.layout not in possible):
        raise NotAnImage(
            f"of shape {[*shape]}, it has other than 1 or 3 channels"
            + (f" as {reading.layout}" if reading.layout else ""),
            "name an input of 1 or 3 channels",
        )
    if reading.layout is None and len(possible) > 1:
        raise NotAnImage(
            f"its shape {[*shape]} does not show where the channels are", "say NCHW or NHWC as `image.layout`"
        )
    return reading.layout or possible[0]
