"""Packing: the files of a source in a trace request. Python goes as text, and all else in one zip archive."""

import io
import zipfile
from collections.abc import Collection, Mapping
from typing import Any

from tracehouse.spec.trace_spec import SOURCE_FILES_MAX, is_source_path

SOURCE_FILE = "source.zip"
# As many texts as a reader may look through; what is more goes into the archive. Chosen.
_TEXT_MAX_BYTES = 1 << 20
_TIME = (1980, 1, 1, 0, 0, 0)  # always the same, so that the same files have the same bytes


def pack_files(files: Mapping[str, bytes], hidden: Collection[str] = ()) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return `files` and `file` of a trace request's source, and what is uploaded with it.

    What goes as text is shown where the trace is, and can be edited there. `hidden` are files that nobody would edit.
    """
    texts = _inline_texts({path: data for path, data in files.items() if path not in hidden})
    packed = {path: data for path, data in files.items() if path not in texts}
    source = {**({"files": texts} if texts else {}), **({"file": SOURCE_FILE} if packed else {})}
    return source, {SOURCE_FILE: zip_files(packed)} if packed else {}


def _inline_texts(files: Mapping[str, bytes]) -> dict[str, str]:
    room = _TEXT_MAX_BYTES
    texts: dict[str, str] = {}
    for path, data in files.items():
        text = _inline_text(path, data)
        if text is not None and len(data) <= room and len(texts) < SOURCE_FILES_MAX:
            texts[path] = text
            room -= len(data)
    return texts


def _inline_text(path: str, data: bytes) -> str | None:
    """Return a file of Python as a trace request can have it; None if it cannot."""
    if not path.endswith(".py") or not is_source_path(path) or b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:  # in another encoding, which its first lines name
        return None


def zip_files(files: Mapping[str, bytes]) -> bytes:
    """Return a zip archive of files by their paths. The same files always give the same bytes."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(files):
            archive.writestr(zipfile.ZipInfo(path, _TIME), files[path], zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def texts_of(files: Mapping[str, bytes]) -> dict[str, str]:
    """Return the Python files as text, to be shown beside what is found in them."""
    return {path: data.decode(errors="replace") for path, data in files.items() if path.endswith(".py")}
