"""Packing: the packer as its parent sees it, which itself never looks into an archive."""

from collections.abc import Mapping

from service.protocol.messages import Failed
from service.protocol.packer import ExtraFile, Pack, Packed, Unpack, Unpacked, from_packer
from service.sandbox.channel import Channel, MalformedFrame
from service.storage.blobs import Staged
from tracehouse.byte_units import MIB

PACKER = "workers.programs.packer"

# An example's inputs and outputs are among the golden cases.
EXTRA_MAX_BYTES = 512 * MIB
# Of what is packed, the names and the sizes.
_HEADERS_MAX_BYTES = 64 * 1024


def pack(channel: Channel, archive: Staged, extra: Mapping[str, bytes], packed: Staged, until: float) -> Failed | None:
    """Write to `packed` what the packer makes of the archive that it was forked with. Raises as a channel does."""
    files = [ExtraFile(name=name, byte_size=len(data)) for name, data in extra.items()]
    channel.send(Pack(files=files).model_dump(mode="json"), *extra.values(), until=until)
    header, size = channel.receive_header(until)
    said = from_packer.validate_python(header)
    if isinstance(said, Failed):
        return said
    if not isinstance(said, Packed) or said.cut > archive.byte_size:
        raise MalformedFrame("it was asked to pack")
    if size > archive.byte_size - said.cut + sum(map(len, extra.values())) + _HEADERS_MAX_BYTES:
        raise MalformedFrame("it packed more than it was given")
    _copy(archive, said.cut, packed)
    channel.copy_body(packed, until)
    return None


def unpack(channel: Channel, names: tuple[str, ...], until: float) -> dict[str, bytes] | Failed:
    """Those of these extra files that the archive has which the packer was forked with."""
    channel.send(Unpack(names=[*names], most_bytes=EXTRA_MAX_BYTES).model_dump(mode="json"), until=until)
    header, size = channel.receive_header(until)
    said = from_packer.validate_python(header)
    if isinstance(said, Failed):
        return said
    if not isinstance(said, Unpacked) or size != sum(file.byte_size for file in said.files):
        raise MalformedFrame("it was asked to unpack")
    body = memoryview(channel.receive_body(until))
    found: dict[str, bytes] = {}
    for file in said.files:
        found[file.name], body = bytes(body[: file.byte_size]), body[file.byte_size :]
    return found


def _copy(archive: Staged, size: int, packed: Staged) -> None:
    with archive.open() as file:
        while size:
            part = file.read(min(size, MIB))
            if not part:
                raise MalformedFrame("more of the archive is to stay than there is")
            packed.write(part)
            size -= len(part)
