"""The packer as its parent sees it, which itself never looks into an archive."""

from collections.abc import Mapping

from service.protocol.messages import FailureReply
from service.protocol.packer import ExtraFile, Pack, PackedArchive, Unpack, UnpackedFiles, from_packer
from service.sandbox.channel import Channel, MalformedFrame
from service.storage.blobs import StagedBlob
from tracehouse.byte_units import MIB

PACKER = "workers.programs.packer"

# The golden cases hold the examples' inputs and outputs.
EXTRA_MAX_BYTES = 512 * MIB
# The names and sizes of what is packed.
_HEADERS_MAX_BYTES = 64 * 1024


def pack(channel: Channel, archive: StagedBlob, extra: Mapping[str, bytes], until: float) -> FailureReply | None:
    """Put the extra files into the archive that the packer was forked with.

    Its first bytes stay as they are, and what the packer answers follows them. Returns the packer's failure, if it
    fails: the archive is what it was then. Raises as a channel does.
    """
    files = [ExtraFile(name=name, byte_size=len(data)) for name, data in extra.items()]
    channel.send(Pack(files=files).model_dump(mode="json"), *extra.values(), until=until)
    header, size = channel.receive_header(until)
    answer = from_packer.validate_python(header)
    if isinstance(answer, FailureReply):
        return answer
    if not isinstance(answer, PackedArchive) or answer.cut > archive.byte_size:
        raise MalformedFrame("it was asked to pack")
    if size > archive.byte_size - answer.cut + sum(map(len, extra.values())) + _HEADERS_MAX_BYTES:
        raise MalformedFrame("it packed more than it was given")
    archive.cut(answer.cut)
    channel.copy_body(archive, until)
    return None


def unpack(channel: Channel, names: tuple[str, ...], until: float) -> dict[str, bytes] | FailureReply:
    """Return those of the named extra files that are in the archive which the packer was forked with."""
    channel.send(Unpack(names=[*names], most_bytes=EXTRA_MAX_BYTES).model_dump(mode="json"), until=until)
    header, size = channel.receive_header(until)
    answer = from_packer.validate_python(header)
    if isinstance(answer, FailureReply):
        return answer
    if not isinstance(answer, UnpackedFiles) or size != sum(file.byte_size for file in answer.files):
        raise MalformedFrame("it was asked to unpack")
    body = memoryview(channel.receive_body(until))
    data: dict[str, bytes] = {}
    for file in answer.files:
        data[file.name], body = bytes(body[: file.byte_size]), body[file.byte_size :]
    return data
