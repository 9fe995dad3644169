"""Messages between a parent and the packer, which reads and writes an archive's extra files."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, TypeAdapter

from service.protocol.messages import FailureReply, not_too_large
from tracehouse.frozen import Frozen


class ExtraFile(Frozen):
    """One of the files that an archive carries beside the model; their bytes are the frame's body, in their order."""

    name: str = Field(max_length=100)
    byte_size: int = Field(ge=0)


class Pack(Frozen):
    """Put these into the archive in descriptor 0, in place of those that have their names."""

    kind: Literal["pack"] = "pack"
    files: list[ExtraFile]


class Unpack(Frozen):
    """Read those of these names that the archive in descriptor 0 has."""

    kind: Literal["unpack"] = "unpack"
    names: list[str]
    most_bytes: int  # of each


class PackedArchive(Frozen):
    """The new archive: so many bytes of the old one, and behind them the frame's body."""

    kind: Literal["packed"] = "packed"
    cut: int = Field(ge=0)


class UnpackedFiles(Frozen):
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
