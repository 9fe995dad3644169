"""Blob copies: all blobs of one place, brought to another one, where those stay that are there already."""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from service.domain.errors import BlobMissing, ContentDamaged
from service.storage.blobs import Blobs, StoredFile
from tracehouse.byte_units import MIB

# A place elsewhere lets a call wait. Each may have some parts of a large file in memory.
_AT_ONCE = 4
_PIECE_BYTES = MIB


@dataclass(frozen=True)
class CopiedBlobs:
    """What was copied, or would be."""

    copied: int
    copied_bytes: int
    kept: int  # that were there already
    damaged: frozenset[str]  # whose bytes are not those of the digest: they were not copied
    there: frozenset[str]  # all that the other place has now


def copy_blobs(source: Blobs, target: Blobs, *, dry_run: bool = False) -> CopiedBlobs:
    """Copy what the target lacks; with `dry_run`, read it all and write nothing. Raises FilesUnavailable.

    The target has a blob only once it has all of it. So one of the same size is not sent again.
    """
    there = {file.digest: file.byte_size for file in target.files()}
    files = [*source.files()]
    lacking = [file for file in files if there.get(file.digest) != file.byte_size]
    copied, damaged = [], set()
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="copying") as executor:
        copy = partial(_is_copied, source, None if dry_run else target)
        for file, is_copied in zip(lacking, executor.map(copy, lacking), strict=True):
            if is_copied:
                copied.append(file)
            else:
                damaged.add(file.digest)
    return CopiedBlobs(
        copied=len(copied),
        copied_bytes=sum(file.byte_size for file in copied),
        kept=len(files) - len(lacking),
        damaged=frozenset(damaged),
        there=frozenset(there) - damaged | {file.digest for file in copied},
    )


def blobs_in(document: object) -> Iterator[str]:
    """Yield the digests of all blobs that a stored document names, wherever in it they stand."""
    if isinstance(document, Mapping):
        if "digest" in document and "byte_size" in document:
            yield document["digest"]
        for value in document.values():
            yield from blobs_in(value)
    elif isinstance(document, list):
        for value in document:
            yield from blobs_in(value)


def _is_copied(source: Blobs, target: Blobs | None, file: StoredFile) -> bool:
    """Whether the blob is whole, and in the target now if there is one."""
    try:
        opened = source.open(file.digest)
    except (BlobMissing, ContentDamaged):
        return False
    with opened:
        if target is None:
            return True
        with target.stage() as staged:
            while piece := opened.read(_PIECE_BYTES):
                staged.write(piece)
            # What is sent is what was compared: the disk may have given other bytes the second time.
            if staged.blob.digest != file.digest:
                return False
            staged.commit()
    return True
