"""Messages between a parent and the packer, which reads and writes an archive's extra files."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, TypeAdapter

from service.protocol.messages import FailureReply, not_too_large
from tracehouse.frozen import Frozen


class ExtraFile(Frozen):
    """A file in an archive beside the model. The frame's body is the bytes of all files in their order."""

    name: str = Field(max_length=100)
    byte_size: int = Field(ge=0)


class Pack(Frozen):
    """Put these files into the archive in descriptor 0; they replace files of the same names."""

    kind: Literal["pack"] = "pack"
    files: list[ExtraFile]


class Unpack(Frozen):
    """Read the files of these names from the archive in descriptor 0, if it has them."""

    kind: Literal["unpack"] = "unpack"
    names: list[str]
    most_bytes: int  # for each file


class PackedArchive(Frozen):
    """The new archive: the first `cut` bytes of the old one, followed by the frame's body."""

    kind: Literal["packed"] = "packed"
    cut: int = Field(ge=0)


class UnpackedFiles(Frozen):
    """The files that were found; the frame's body is their bytes."""

    kind: Literal["unpacked"] = "unpacked"
    files: list[ExtraFile]


ToPacker = Annotated[Pack | Unpack, Field(discriminator="kind")]

to_packer: TypeAdapter[Pack | Unpack] = TypeAdapter(ToPacker)

FromPacker = Annotated[
    PackedArchive | UnpackedFiles | FailureReply,
    Field(discriminator="kind"),
    BeforeValidator(not_too_large),
]

from_packer: TypeAdapter[PackedArchive | UnpackedFiles | FailureReply] = TypeAdapter(FromPacker)
