"""Sources: the texts of the files that were submitted, as far as they can be shown without opening an archive."""

from collections.abc import Mapping
from typing import Any

from service.api.artifact_sources import named_sources
from service.storage.blobs import Blobs
from service.storage.database import Store
from tracehouse.artifact.blob import BlobRef
from tracehouse.artifact.manifest import Artifact
from tracehouse.spec.trace_spec import ModelSource, is_source_path

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
    elif source.file is not None and not source.is_zip:
        texts[source.file] = _read_text(store.blobs, files[source.file])
    return _bounded(texts)


def can_edit(source: ModelSource, files: Mapping[str, BlobRef], shown: Mapping[str, str]) -> bool:
    """Whether there is text to edit. Of a `.zip` alone, that is what findings name."""
    if source.archive is not None:
        return False
    if source.file is not None and not source.is_zip:
        return files[source.file].byte_size <= _TEXT_MAX_BYTES
    return source.files is not None or bool(shown)


def editable_submission(store: Store, tenant: str, request_id: str) -> dict[str, Any]:
    """Return what was submitted, the texts of its source by their paths, and whether files were uploaded with it.

    An uploaded `.py` is there as a text in its place.
    """
    submitted = store.trace_requests.get(tenant, request_id)
    spec = submitted.spec.model_dump(mode="json", exclude_unset=True)
    source, files = submitted.spec.source, submitted.files
    texts = dict(source.files or {})
    if source.file is not None and (path := source.python_path) is not None:
        del spec["source"]["file"]
        texts[path] = _read_text(store.blobs, files[source.file])
    elif source.is_zip and submitted.artifacts:
        artifact = store.artifacts.get(tenant, submitted.artifacts[0].digest)
        named = named_sources(artifact, store.blobs)
        texts = {path: text for path, text in named.items() if is_source_path(path)} | texts
    return {"spec": spec, "texts": texts, "has_files": bool(files)}


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
