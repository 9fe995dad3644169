"""Image readings: how a picture in a file becomes an input of a model."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, FiniteFloat, ValidationError, ValidatorFunctionWrapHandler, WrapValidator, model_validator
from pydantic_core import PydanticCustomError

from tracehouse.frozen import Frozen

# What the names of picture files end in, in small letters.
IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg")
# Chosen: a camera's pictures have up to 50 million pixels. Two sides of this length have somewhat more, and no picture
# with more pixels than that is decoded.
IMAGE_SIDE_MAX = 8192
# Decoded, each takes 4 bytes.
PIXELS_MAX = IMAGE_SIDE_MAX**2


def _parse_size(value: Any, parse: ValidatorFunctionWrapHandler) -> Any:
    try:
        return parse(value)
    except ValidationError as error:
        message = f"size is example, own, or height and width from 1 to {IMAGE_SIDE_MAX}, such as [224, 224]"
        raise PydanticCustomError("image_size", "{message}", {"message": message}) from error


Side = Annotated[int, Field(ge=1, le=IMAGE_SIDE_MAX)]
HeightAndWidth = Annotated[list[Side], Field(min_length=2, max_length=2)]
# One number for all channels, or one for each.
ChannelNumbers = Annotated[list[FiniteFloat], Field(min_length=1, max_length=3)]


class ImageReading(Frozen):
    """How a PNG or JPEG file becomes an input. The example says the datatype, the batch and the number of channels.

    Floats are 0 to 1 before `mean` and `std`, and UINT8 is 0 to 255. Pixels are taken as the file stores them: an
    orientation in its metadata is not applied.
    """

    input: str | None = Field(
        None,
        min_length=1,
        description="The input's name in the contract. Left out: the only input that is like an image, with four "
        "dims, 1 or 3 channels, and floats or UINT8.",
    )
    size: Annotated[Literal["example", "own"] | HeightAndWidth, WrapValidator(_parse_size)] = Field(
        "example",
        description="`example`: the picture is resized to the height and width of the example. `own`: it keeps its "
        "own, so that other sizes are tried. Or height and width: `[224, 224]`. Sides are not kept in proportion.",
    )
    mean: ChannelNumbers | None = Field(
        None, description="What is subtracted from the values 0 to 1: a number, or one for each channel. Floats only."
    )
    std: ChannelNumbers | None = Field(
        None, description="What the values are divided by then: a number, or one for each channel. Floats only."
    )
    layout: Literal["NCHW", "NHWC"] | None = Field(
        None, description="Where the channels stand in the input. Left out: as the example's sizes show it."
    )

    @model_validator(mode="after")
    def _check_std(self) -> Self:
        if self.std is not None and min(self.std) <= 0:
            raise PydanticCustomError("std", "each number of std is above 0")
        return self


def is_image(file: str) -> bool:
    """Whether a file of this name is a picture."""
    return file.lower().endswith(IMAGE_SUFFIXES)
