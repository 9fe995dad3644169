"""Picture bodies: a PNG or JPEG file that is the input of a model."""

from fastapi import Request

from service.api.context import AppContext
from service.api.http import held
from service.api.http.body import read_text
from service.api.http.in_turn import decode
from service.api.inference_forms import Form
from service.serving.inference import ServedModel
from service.serving.picture_input import picture_input
from tracehouse.byte_units import MIB
from tracehouse.errors import PictureUnreadable
from tracehouse.tensors.tensor import Tensor

# Of the decoded picture. Chosen: 22 million pixels of three floats.
_DECODED_MAX_BYTES = 256 * MIB
# How files of the two kinds begin.
_BEGIN = {Form.PNG: b"\x89PNG\r\n\x1a\n", Form.JPEG: b"\xff\xd8\xff"}


async def read_picture(
    request: Request, context: AppContext, served: ServedModel, method: str, form: Form
) -> list[Tensor]:
    """Read a body that is a picture, and make the method's one input of it.

    Raises PictureNotTaken, PictureUnreadable, and what `read_text` and `Pictures.read` raise.
    """
    contracts = served.method(method).contracts
    wanted = picture_input(contracts, await context.inference.image_readings(served, method))
    limits = context.limits
    picture = await read_text(request, limits.request_max_bytes)
    if not picture.startswith(_BEGIN[form]):
        raise PictureUnreadable(f"it does not begin as a file of type {form} does")
    most_bytes = served.body_max_bytes(limits.request_max_bytes, min(limits.upload_max_bytes, _DECODED_MAX_BYTES))
    tensor = await decode(request, context.pictures.read, picture, wanted, most_bytes)
    held.hold_body(request, len(picture) + len(tensor.data))
    return [tensor]
