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


def pack(
    channel: Channel, archive: StagedBlob, extra: Mapping[str, bytes], packed: StagedBlob, until: float
) -> FailureReply | None:
    """Write the archive that the packer was forked with, with the extra files in it, to `packed`.

    Returns the packer's failure, if it fails. Raises as a channel does.
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
    _copy(archive, answer.cut, packed)
    channel.copy_body(packed, until)
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


def _copy(archive: StagedBlob, size: int, packed: StagedBlob) -> None:
    with archive.open() as file:
        while size:
            part = file.read(min(size, MIB))
            if not part:
                raise MalformedFrame("more of the archive is to stay than there is")
            packed.write(part)
            size -= len(part)
