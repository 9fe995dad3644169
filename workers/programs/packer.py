"""The packer, a child program: puts extra files into an archive, or reads those that are in it.

The archive may be anybody's, so no parent looks into it. The packer answers with the end of the new archive; what comes
before that end is the old archive's, byte by byte.
"""

import os

from service.protocol.messages import FailureReply
from service.protocol.packer import ExtraFile, Pack, PackedArchive, Unpack, UnpackedFiles, to_packer
from service.sandbox.channel import Buffer, Channel, Header
from tracehouse.errors import ArchiveUnusable
from workers.programs.zip_directory import NotAnArchive, ZipDirectory


def main(channel: Channel, files: list[int]) -> None:
    header, body = channel.receive()
    request = to_packer.validate_python(header)
    with os.fdopen(files[0], "rb") as archive:
        try:
            reply, buffers = _answer(ZipDirectory(archive), request, memoryview(body))
        except NotAnArchive as error:
            failed = ArchiveUnusable(f"it is no archive as torch.jit.save writes it: {error}")
            reply, buffers = FailureReply.of(failed).model_dump(mode="json"), []
    channel.send(reply, *buffers)


def _answer(directory: ZipDirectory, request: Pack | Unpack, body: memoryview) -> tuple[Header, list[Buffer]]:
    if isinstance(request, Unpack):
        return _unpack(directory, request)
    tail = directory.with_extra(_split(request.files, body))
    return PackedArchive(cut=directory.start).model_dump(mode="json"), [*tail]


def _unpack(directory: ZipDirectory, request: Unpack) -> tuple[Header, list[Buffer]]:
    """Read extra files of an archive that is undamaged: a golden case may not show a weight that changed a little."""
    directory.check_bytes()
    read = {name: directory.extra(name, request.most_bytes) for name in request.names}
    found = {name: data for name, data in read.items() if data is not None}
    files = [ExtraFile(name=name, byte_size=len(data)) for name, data in found.items()]
    return UnpackedFiles(files=files).model_dump(mode="json"), [*found.values()]


def _split(files: list[ExtraFile], body: memoryview) -> dict[str, memoryview]:
    data: dict[str, memoryview] = {}
    place = 0
    for file in files:
        data[file.name] = body[place : place + file.byte_size]
        place += file.byte_size
    return data
