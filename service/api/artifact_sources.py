"""Sources of an artifact: the submitted files that its findings name."""

import orjson
from pydantic import TypeAdapter, ValidationError

from service.storage.blobs import Blobs
from tracehouse.artifact.file_limits import SOURCES_MAX_BYTES
from tracehouse.artifact.manifest import Artifact

_sources: TypeAdapter[dict[str, str]] = TypeAdapter(dict[str, str])


def named_sources(artifact: Artifact, blobs: Blobs) -> dict[str, str]:
    """Return the texts by path. The process that ran the model's code wrote them: none if unreadable."""
    if artifact.sources is None or artifact.sources.byte_size > SOURCES_MAX_BYTES:
        return {}
    with blobs.open(artifact.sources.digest) as file:
        try:
            return _sources.validate_python(orjson.loads(file.read()))
        except (ValueError, ValidationError):
            return {}
