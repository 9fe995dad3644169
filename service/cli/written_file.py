"""A file that a command writes: what the service answers, whole or not at all."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import typer

from service.cli.connection import Client
from tracehouse.client.whole_file import check_writable, written_whole


def file_to_write(text: str) -> Path:
    """Return the path. Raises typer.BadParameter for that of a folder: a path in Python has no slash at its end."""
    if text.endswith(("/", "/.")):
        raise typer.BadParameter(f"{text} names a folder: name a file in it")
    return Path(text)


def check_place(file: Path, example: str) -> None:
    """Raise typer.BadParameter if no file can be written there. `example` is a name that a file could have."""
    with _refusals(file):
        if file.is_dir():
            raise typer.BadParameter(f"{file} is a folder: name a file in it, such as {file / example}")
        if not file.absolute().parent.is_dir():
            raise typer.BadParameter(f"there is no folder {file.absolute().parent}")
        check_writable(file)


def write_reply(client: Client, path: str, file: Path) -> int:
    """Write what the service answers, and return its size. The file is there only once it is whole."""
    with _refusals(file), _opened_pipe(file) if file.is_fifo() else written_whole(file) as written:
        return client.download_to(path, written)


@contextmanager
def _refusals(file: Path) -> Iterator[None]:
    """Turn what the file system refuses into typer.BadParameter."""
    try:
        yield
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be written: {error.strerror}") from error


@contextmanager
def _opened_pipe(file: Path) -> Iterator[BinaryIO]:
    """Yield a pipe to write to. Raises typer.BadParameter if nobody reads it, which would be waited for without end."""
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_NONBLOCK)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        raise typer.BadParameter(
            f"{file} is a pipe that nobody reads: start what reads it first, or name a file"
        ) from error
    os.set_blocking(descriptor, True)
    with open(descriptor, "wb") as pipe:
        yield pipe
