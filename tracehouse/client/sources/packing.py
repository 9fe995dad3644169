"""Packing: the files of a source as one zip archive."""

import io
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tracehouse.client.errors import NotSendable

SOURCE_FILE = "source.zip"
_TIME = (1980, 1, 1, 0, 0, 0)  # always the same, so that the same files have the same bytes


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


def read_included(include: Sequence[str | Path]) -> dict[str, bytes]:
    """Return files and folders that the code opens, by their paths relative to the working folder.

    Raises NotSendable.
    """
    files: dict[str, bytes] = {}
    for given in map(Path, include):
        if not given.exists():
            raise NotSendable(f"include names {str(given)!r}, and there is no such file or folder")
        inside = [given] if given.is_file() else sorted(path for path in given.rglob("*") if path.is_file())
        for path in inside:
            if "__pycache__" not in path.parts:
                files[_place_of(path)] = path.read_bytes()
    return files


def _place_of(path: Path) -> str:
    here = Path.cwd()
    whole = path.resolve()
    if not whole.is_relative_to(here):
        raise NotSendable(
            f"include names {str(path)!r}, which lies outside of {here}: run this in the project's folder, from where "
            "the code opens its files"
        )
    return whole.relative_to(here).as_posix()
