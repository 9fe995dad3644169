"""A file that a command writes: what the service answers, whole or not at all."""

from pathlib import Path

import typer

from service.cli.connection import Client
from tracehouse.client.whole_file import written_whole


def check_place(file: Path, example: str) -> None:
    """Raise typer.BadParameter if no file can be written there. `example` is a name that a file could have."""
    if file.is_dir():
        raise typer.BadParameter(f"{file} is a folder: name a file in it, such as {file / example}")
    if not file.absolute().parent.is_dir():
        raise typer.BadParameter(f"there is no folder {file.absolute().parent}")


def write_reply(client: Client, path: str, file: Path) -> int:
    """Write what the service answers, and return its size. The file is there only once it is whole."""
    try:
        with written_whole(file) as written:
            return client.download_to(path, written)
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be written: {error.strerror}") from error
