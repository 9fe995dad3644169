"""A kept archive: one that was made of the same submission before, and that is now checked once more."""

import zipfile
from collections.abc import Mapping
from dataclasses import replace
from io import BytesIO
from typing import BinaryIO

import torch

from tracehouse.eager.error_translation import is_out_of_memory, out_of_memory_error
from tracehouse.errors import ArchiveUnusable
from tracehouse.introspection import user_lines
from tracehouse.torch_values import script_archives
from tracehouse.torchscript.candidate import Candidate

# What torch.jit.load does not read, or only for the lines of errors.
_UNREAD_FOLDERS = ("extra/", ".data/")
_UNREAD_SUFFIX = ".debug_pkl"


def keep_archive(candidate: Candidate, archive: BinaryIO, device: str) -> Candidate:
    """Return the candidate whose module is what the archive holds, so that all that is checked is true of the archive.

    A new trace usually gives the very same archive, and its module then knows more of the source's lines. If it gives
    another one, the module is loaded from the archive. Raises ArchiveUnusable.
    """
    if _holds_same(archive, BytesIO(candidate.traced.archive)):
        return candidate
    archive.seek(0)
    return replace(candidate, traced=replace(candidate.traced, module=_load(archive, device)))


def _load(archive: BinaryIO, device: str) -> torch.jit.ScriptModule:
    try:
        return script_archives.load(archive, device)
    except Exception as error:  # torch raises errors of many kinds
        if is_out_of_memory(error):
            raise out_of_memory_error(error) from error
        raise ArchiveUnusable(f"the archive cannot be loaded: {user_lines.error_text(error)}") from error


def _holds_same(one: BinaryIO, other: BinaryIO) -> bool:
    """Whether torch.jit.load reads the same bytes of both archives."""
    with zipfile.ZipFile(one) as first, zipfile.ZipFile(other) as second:
        records, others = _records(first), _records(second)
        return records.keys() == others.keys() and all(
            first.getinfo(name).CRC == second.getinfo(others[place]).CRC
            and first.read(name) == second.read(others[place])
            for place, name in records.items()
        )


def _records(archive: zipfile.ZipFile) -> Mapping[str, str]:
    """Return the names of the records that are read, by their places below the archive's own folder."""
    places = {name.partition("/")[2]: name for name in archive.namelist()}
    return {
        place: name
        for place, name in places.items()
        if not place.startswith(_UNREAD_FOLDERS) and not place.endswith(_UNREAD_SUFFIX)
    }
