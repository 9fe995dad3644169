"""Image samples: a picture in the place of the input of a call that takes images."""

import torch

from tracehouse.eager.call import Call
from tracehouse.eager.inputs import InputFiles
from tracehouse.errors import ArgumentMismatch
from tracehouse.spec.image_format import NotAnImage, image_format, is_like_image
from tracehouse.spec.image_reading import ImageReading
from tracehouse.torch_values.tensors import datatype_of


def read_image_sample(example: Call, file: str, reading: ImageReading, uploaded: InputFiles, device: str) -> Call:
    """Return the example's call with the picture as the input that takes images. It fills the example's batch.

    Raises InputsUnreadable if the file has no such picture, and ArgumentMismatch if the input takes none.
    """
    name = _choose_input(example, file, reading)
    tensor = example.tensors[name]
    try:
        wanted = image_format(datatype_of(tensor), tensor.shape, reading)
    except NotAnImage as problem:
        raise ArgumentMismatch(
            f"the input {name!r} cannot be the picture {file!r}: {problem.reason}",
            method=example.method, input=name, file=file, remedy=problem.remedy,
        ) from problem  # fmt: skip
    picture = uploaded.image(file, wanted).to(device)
    filled = picture.expand(*tensor.shape[:-3], *picture.shape)
    copies = {other: one.detach().clone() for other, one in example.tensors.items() if other != name}
    return example.with_tensors({**copies, name: filled.clone(memory_format=torch.contiguous_format)})


def _choose_input(example: Call, file: str, reading: ImageReading) -> str:
    tensors = example.tensors
    if reading.input is not None:
        if reading.input in tensors:
            return reading.input
        raise ArgumentMismatch(
            f"the method {example.method} has no input {reading.input!r}: it has {', '.join(tensors)}",
            method=example.method, input=reading.input, file=file,
            remedy="name one of its inputs as `image.input`",
        )  # fmt: skip
    likely = [name for name, tensor in tensors.items() if is_like_image(datatype_of(tensor), tensor.shape)]
    if len(likely) == 1:
        return likely[0]
    several = f"several inputs are like images: {', '.join(likely)}" if likely else "no input is like an image"
    raise ArgumentMismatch(
        f"the picture {file!r} can be no input of the method {example.method}: {several}",
        method=example.method, file=file, inputs=[*tensors],
        remedy="name the input as `image.input`; it has 1 or 3 channels, and floats or UINT8"
        if likely
        else "an input for a picture has four dims, 1 or 3 channels, and floats or UINT8; send other inputs as .npz",
    )  # fmt: skip
