"""A file that is written: whole, or not at all."""

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def written_whole(path: Path) -> Iterator[BinaryIO]:
    """Yield a file that takes the place of the one at the path once the block ends; if it raises, all is as before.

    A link stays, and the file that it leads to is replaced. What is no file, such as /dev/stdout or a pipe, is never
    replaced: it is written to.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no such directory", str(path.parent))
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    with part.open("xb") as file:
        try:
            yield file
            file.close()
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
