"""Picture inputs: whether a method takes pictures, and in what form.

It takes them if it has one input, and the request that made its version has a picture among the samples of its check:
what that sample says of `image` is how the check made an input of a picture. Nothing else is guessed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from service.domain.errors import PictureNotTaken
from tracehouse.contract.contract import MethodContract
from tracehouse.spec.example_inputs import SampleFile
from tracehouse.spec.image_format import ImageFormat, NotAnImage, image_format
from tracehouse.spec.image_reading import ImageReading
from tracehouse.tensors.raw import read_raw
from tracehouse.tensors.tensor import Tensor


@dataclass(frozen=True, slots=True)
class PictureInput:
    """The input that a picture becomes. With `has_batch`, it is a batch of one."""

    name: str
    format: ImageFormat
    has_batch: bool

    def tensor(self, shape: Sequence[int], data: memoryview) -> Tensor:
        """Return the input of a decoded picture. Raises InvalidTensor."""
        batch = (1,) if self.has_batch else ()
        return read_raw(self.name, self.format.datatype, (*batch, *shape), data)


def image_readings(samples: Sequence[SampleFile]) -> dict[str, list[ImageReading | None]]:
    """Return, by methods, how each picture among the samples of a check is read; None where its sample does not say."""
    found: dict[str, list[ImageReading | None]] = {}
    for sample in samples:
        if sample.image_reading is not None:
            found.setdefault(sample.method, []).append(sample.image)
    return found


def picture_input(contracts: Sequence[MethodContract], readings: Sequence[ImageReading | None]) -> PictureInput:
    """Return the input that a picture becomes.

    `contracts` has the method's one contract, or its contract in each bucket; `readings` how each picture among the
    samples of the method was read, None where its sample does not say. Raises PictureNotTaken.
    """
    reading = _agreed(readings)
    if len(contracts[0].inputs) != 1:
        names = [spec.name for spec in contracts[0].inputs]
        raise PictureNotTaken(f"the method has {len(names)} inputs, and a picture is one", inputs=names)
    spec = contracts[0].inputs[0]
    if len(contracts) > 1 and reading.size == "example":
        raise PictureNotTaken(
            "the version has buckets, and the sample does not say to which height and width a picture is resized",
            remedy="Trace the model again, and say `size` in the `image` of the sample.",
        )
    try:
        found = image_format(spec.datatype, spec.example, reading)
    except NotAnImage as error:
        raise PictureNotTaken(f"the input {spec.name!r} takes none: {error.reason}", input=spec.name) from error
    has_batch = len(spec.shape) == 4
    if has_batch and isinstance(spec.shape[0], int) and spec.shape[0] != 1:
        raise PictureNotTaken(
            f"the input {spec.name!r} is a batch of {spec.shape[0]}, and a picture is one", input=spec.name
        )
    return PictureInput(spec.name, found, has_batch)


def _agreed(readings: Sequence[ImageReading | None]) -> ImageReading:
    """Return how pictures are read, which all samples say alike. Raises PictureNotTaken."""
    if not readings:
        raise PictureNotTaken("the request that made this version has no picture among the samples of its check")
    first = readings[0]
    if first is None or None in readings:
        raise PictureNotTaken("a sample of the request that made this version does not say how its picture is read")
    if any(each != first for each in readings):
        raise PictureNotTaken("the samples of the request that made this version read their pictures differently")
    return first
