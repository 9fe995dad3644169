"""Folders that are sent as a source: what of them is left out, and why."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from os.path import exists, realpath
from pathlib import Path

_NAMES_IN_TEXT = 5
_PRIVATE_KEY = re.compile(rb"^-----BEGIN [A-Z ]*PRIVATE KEY", re.MULTILINE)  # of OpenSSL, OpenSSH and PGP
_CACHES = ("__pycache__", "node_modules")
_WHY_UNREADABLE = "as it cannot be read"
WHY_NOT_KEY = "as it is a private key"
_WHY_NOT_STATE = "as it is the state of a service, which may have its private signing key"


def walk_folder(folder: Path) -> Iterator[tuple[Path, str | None]]:
    """Yield each file of a folder with None, and each file or folder that is left out of it with the reason.

    Hidden files, caches and virtual environments are passed over without a word.
    """
    yield from _walk(folder, folder)


def _walk(folder: Path, root: Path) -> Iterator[tuple[Path, str | None]]:
    if (why := _why_left_out(folder)) is not None:
        yield folder, why
        return
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.name in _CACHES:
            continue
        if (why := why_not_followed(path, root)) is not None:
            yield path, why
        elif path.is_file():
            yield path, None if os.access(path, os.R_OK) else _WHY_UNREADABLE
        elif path.is_dir() and not path.is_symlink() and not exists(path / "pyvenv.cfg"):
            yield from _walk(path, root)


def _why_left_out(folder: Path) -> str | None:
    if not os.access(folder, os.R_OK | os.X_OK):
        return _WHY_UNREADABLE
    return _WHY_NOT_STATE if _is_service_state(folder) else None


def why_not_followed(path: Path, root: Path) -> str | None:
    """Return why the file or folder at a path in the root is no part of it, because of links; None if it is.

    A repository of somebody else may have a link to a private file of whoever sends it.
    """
    target, top = Path(realpath(path)), Path(realpath(root))  # unlike Path.resolve, it takes a link to itself
    if not target.is_relative_to(top):
        return "as a link leads out of the folder"
    if any(part.startswith(".") for part in target.relative_to(top).parts):
        return "as a link leads to a hidden file"
    return None


def _is_service_state(folder: Path) -> bool:
    """Whether a Tracehouse service keeps its files in this folder, such as the key that it signs with."""
    return (folder / "lock").is_file() and any((folder / name).exists() for name in ("signing", "blobs"))


def is_private_key(name: str, data: bytes) -> bool:
    """Whether a file of this name is a private key, which a project has for other things than its model."""
    return not name.endswith(".py") and _PRIVATE_KEY.search(data) is not None


def describe_left_out(left_out: Mapping[str, Sequence[str]]) -> list[str]:
    """Return a line for each reason, with the first of the names that are left out for it."""
    return [f"left out of the source, {why}: {_list_names(names)}" for why, names in left_out.items()]


def _list_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES_IN_TEXT} more" if len(names) > _NAMES_IN_TEXT else ""
    return f"{', '.join(names[:_NAMES_IN_TEXT])}{more}"
