"""Sources: the texts of the files that were submitted, as far as they can be shown without opening an archive."""

from collections.abc import Mapping

from service.api.artifact_sources import named_sources
from service.storage.blobs import Blobs
from service.storage.database import Store
from tracehouse.artifact.blob import BlobRef
from tracehouse.artifact.manifest import Artifact

# Chosen: more than a person reads.
_TEXT_MAX_BYTES = 400_000


def submitted_sources(store: Store, tenant: str, request_id: str, artifact: Artifact | None) -> dict[str, str]:
    """Return the texts by path: those that were sent inline or as one file, or else those that findings name.

    Of a large submission, it has those that findings name and as many others as there is room for.
    """
    source, files = store.trace_requests.source(tenant, request_id)
    texts = {} if artifact is None else named_sources(artifact, store.blobs)
    if source.files is not None:
        texts |= source.files
    elif source.file is not None and source.file.lower().endswith(".py"):
        texts[source.file] = _read_text(store.blobs, files[source.file])
    return _bounded(texts)


def _read_text(blobs: Blobs, blob: BlobRef) -> str:
    with blobs.open(blob.digest) as file:
        return file.read(_TEXT_MAX_BYTES).decode("utf-8", errors="replace")


def _bounded(texts: Mapping[str, str]) -> dict[str, str]:
    room = _TEXT_MAX_BYTES
    kept = {}
    for path, text in texts.items():
        if len(text) <= room:
            kept[path] = text
            room -= len(text)
    return kept
