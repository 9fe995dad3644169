"""Imports what its parent names, from folders that it was given, and tries to change these folders."""

import importlib
import os
import sys
from pathlib import Path

from service.sandbox.channel import Channel


def main(channel: Channel, files: list[int]) -> None:
    asked, _ = channel.receive()
    channel.send(
        {
            "text": _text_of(asked["module"]),
            "last": sys.path[-1],
            "reads": _reads(asked["other"]),
            "changed": [name for name, change in _CHANGES.items() if _does(change, Path(asked["folder"]))],
        }
    )


def _text_of(module: str) -> str | None:
    try:
        return str(importlib.import_module(module).TEXT)
    except ImportError:
        return None


def _reads(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_RDONLY))
    except OSError:
        return False
    return True


def _does(change, folder: Path) -> bool:
    try:
        change(folder)
    except OSError:
        return False
    return True


_CHANGES = {
    "writes a module": lambda folder: (folder / "scales.py").write_text("TEXT = 'changed'"),
    "adds a module": lambda folder: (folder / "added.py").write_text(""),
    "removes a module": lambda folder: (folder / "scales.py").unlink(),
    "renames a module": lambda folder: (folder / "scales.py").rename(folder / "other.py"),
}
