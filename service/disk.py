"""The disk: what is written there outlasts a machine that stops."""

import os
from pathlib import Path


def sync_directory(path: Path) -> None:
    """Have the names of the directory's files on disk: those that were made, moved and removed by now."""
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
