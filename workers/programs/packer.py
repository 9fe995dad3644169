"""The packer, a child program: puts extra files into an archive, or reads those that are in it.

The archive may be anybody's, so no parent looks into it. What it packs, it answers as the end of the new archive: what
stands before that is the old one's, byte by byte.
"""

import os

from service.protocol.messages import FailureReply
from service.protocol.packer import ExtraFile, Pack, PackedArchive, Unpack, UnpackedFiles, to_packer
from service.sandbox.channel import Buffer, Channel, Header
from tracehouse.errors import ArchiveUnusable
from workers.programs.zip_directory import NotAnArchive, ZipDirectory


def main(channel: Channel, files: list[int]) -> None:
    header, body = channel.receive()
    asked = to_packer.validate_python(header)
    with os.fdopen(files[0], "rb") as archive:
        try:
            said, buffers = _done(ZipDirectory(archive), asked, memoryview(body))
        except NotAnArchive as error:
            failed = ArchiveUnusable(f"it is no archive as torch.jit.save writes it: {error}")
            said, buffers = FailureReply.of(failed).model_dump(mode="json"), []
    channel.send(said, *buffers)


def _done(directory: ZipDirectory, asked: Pack | Unpack, body: memoryview) -> tuple[Header, list[Buffer]]:
    if isinstance(asked, Unpack):
        return _unpacked(directory, asked)
    tail = directory.with_extra(_split(asked.files, body))
    return PackedArchive(cut=directory.start).model_dump(mode="json"), [*tail]


def _unpacked(directory: ZipDirectory, asked: Unpack) -> tuple[Header, list[Buffer]]:
    """Of an archive that is whole: a weight may have changed by less than a golden case shows."""
    directory.check_bytes()
    read = {name: directory.extra(name, asked.most_bytes) for name in asked.names}
    found = {name: data for name, data in read.items() if data is not None}
    files = [ExtraFile(name=name, byte_size=len(data)) for name, data in found.items()]
    return UnpackedFiles(files=files).model_dump(mode="json"), [*found.values()]


def _split(files: list[ExtraFile], body: memoryview) -> dict[str, memoryview]:
    found: dict[str, memoryview] = {}
    place = 0
    for file in files:
        found[file.name] = body[place : place + file.byte_size]
        place += file.byte_size
    return found
