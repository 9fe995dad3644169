"""Messages between a parent and the picture reader, which makes an input of a picture."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, TypeAdapter

from service.protocol.messages import FailureReply, not_too_large
from tracehouse.frozen import Frozen
from tracehouse.spec.image_format import ImageFormat
from tracehouse.tensors.tensor import Dim


class ReadPicture(Frozen):
    """Read the picture in the frame's body, unless it has more pixels."""

    kind: Literal["read"] = "read"
    format: ImageFormat
    pixels_max: int


class PictureRead(Frozen):
    """The picture; the frame's body is its values."""

    kind: Literal["picture"] = "picture"
    shape: list[Dim] = Field(min_length=3, max_length=3)


FromPictureReader = Annotated[PictureRead | FailureReply, Field(discriminator="kind"), BeforeValidator(not_too_large)]

from_picture_reader: TypeAdapter[PictureRead | FailureReply] = TypeAdapter(FromPictureReader)
