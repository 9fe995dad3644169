"""Existing files: a file that a command reads, and that has to be there."""

from pathlib import Path

import typer


def existing_file(path: Path) -> Path:
    """Return the path. Raises typer.BadParameter if there is no file, or if it cannot be read."""
    try:
        if not path.is_file():
            raise typer.BadParameter(f"there is no file {path}: write its path from {Path.cwd()}, or all of its path")
        with path.open("rb") as file:
            file.read(1)  # what is opened cannot always be read, as /proc/self/mem
    except OSError as error:
        raise typer.BadParameter(f"{path} cannot be read ({error.strerror})") from error
    return path
