"""Image samples: a picture in the place of the input of a call that takes images."""

import torch

from tracehouse.eager.call import Call
from tracehouse.eager.inputs import InputFiles
from tracehouse.errors import ArgumentMismatch
from tracehouse.spec.image_reading import ImageReading
from tracehouse.torch_values.images import CHANNELS, ImageFormat


def read_image_sample(example: Call, file: str, reading: ImageReading, uploaded: InputFiles, device: str) -> Call:
    """Return the example's call with the picture as the input that takes images. It fills the example's batch.

    Raises InputsUnreadable if the file has no such picture, and ArgumentMismatch if the input takes none.
    """
    name = _choose_input(example, file, reading)
    tensor = example.tensors[name]
    problem = _Problem(example.method, name, file)
    picture = uploaded.image(file, _image_format(tensor, reading, problem)).to(device)
    filled = picture.expand(*tensor.shape[:-3], *picture.shape)
    copies = {other: one.detach().clone() for other, one in example.tensors.items() if other != name}
    return example.with_tensors({**copies, name: filled.clone(memory_format=torch.contiguous_format)})


class _Problem:
    """Why an input cannot be a picture of this file."""

    def __init__(self, method: str, name: str, file: str) -> None:
        self._method, self._name, self._file = method, name, file

    def error(self, reason: str, remedy: str) -> ArgumentMismatch:
        return ArgumentMismatch(
            f"the input {self._name!r} cannot be the picture {self._file!r}: {reason}",
            method=self._method, input=self._name, file=self._file, remedy=remedy,
        )  # fmt: skip


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
    likely = [name for name, tensor in tensors.items() if _is_like_image(tensor)]
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


def _is_like_image(tensor: torch.Tensor) -> bool:
    return tensor.dim() == 4 and _takes_pixels(tensor) and bool(_layouts(tensor))


def _takes_pixels(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.dtype is torch.uint8


def _layouts(tensor: torch.Tensor) -> list[str]:
    """Return the layouts that the sizes show."""
    return [layout for layout, dim in (("NCHW", -3), ("NHWC", -1)) if tensor.shape[dim] in CHANNELS]


def _image_format(tensor: torch.Tensor, reading: ImageReading, problem: _Problem) -> ImageFormat:
    if tensor.dim() not in (3, 4) or not _takes_pixels(tensor):
        kind = str(tensor.dtype).removeprefix("torch.")
        raise problem.error(
            f"it is {kind} with {tensor.dim()} dims", "name an input of floats or UINT8 with three or four dims"
        )
    channels_last = _layout(tensor, reading, problem) == "NHWC"
    *_, height, width, channels = tensor.shape if channels_last else (*tensor.shape[-2:], tensor.shape[-3])
    for name, numbers in (("mean", reading.mean), ("std", reading.std)):
        if numbers is not None and tensor.dtype is torch.uint8:
            raise problem.error(f"it is UINT8, which has no {name}", "leave out mean and std")
        if numbers is not None and len(numbers) not in (1, channels):
            raise problem.error(
                f"it has {channels} channels, and {name} has {len(numbers)} numbers",
                f"give {name} as one number, or as one for each channel",
            )
    sizes = {"example": (height, width), "own": None}
    size = sizes[reading.size] if isinstance(reading.size, str) else (reading.size[0], reading.size[1])
    return ImageFormat(channels, tensor.dtype, size, channels_last, reading.mean, reading.std)


def _layout(tensor: torch.Tensor, reading: ImageReading, problem: _Problem) -> str:
    possible, shape = _layouts(tensor), list(tensor.shape)
    if not possible or (reading.layout is not None and reading.layout not in possible):
        raise problem.error(
            f"of shape {shape}, it has other than 1 or 3 channels"
            + (f" as {reading.layout}" if reading.layout else ""),
            "name an input of 1 or 3 channels",
        )
    if reading.layout is None and len(possible) > 1:
        raise problem.error(
            f"its shape {shape} does not show where the channels are", "say NCHW or NHWC as `image.layout`"
        )
    return reading.layout or possible[0]
