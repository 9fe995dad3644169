"""Included files: what the code of a model opens, by the paths under which it does so."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tracehouse.client.errors import NotSendable
from tracehouse.introspection.source_folders import WHY_NOT_KEY, describe_left_out, is_private_key, walk_folder


@dataclass
class IncludedFiles:
    """Files by their paths relative to the working folder, and what of them is left out, by the reason."""

    files: dict[str, bytes] = field(default_factory=dict)
    left_out: dict[str, list[str]] = field(default_factory=dict)

    @property
    def notes(self) -> list[str]:
        return describe_left_out(self.left_out)


def read_included(include: Sequence[str | Path]) -> IncludedFiles:
    """Return files, and folders as they would be sent as a source: without what is hidden, and what links lead to.

    Private keys are left out of both. Raises NotSendable.
    """
    included = IncludedFiles()
    for given in map(Path, include):
        try:
            place = _place_of(given)
            for path, why_left_out in _files_of(given):
                name = (place / path.relative_to(given)).as_posix()
                data = b"" if why_left_out else path.read_bytes()
                why = WHY_NOT_KEY if is_private_key(name, data) else why_left_out
                if why is None:
                    included.files[name] = data
                else:
                    included.left_out.setdefault(why, []).append(name)
        except OSError as error:
            raise NotSendable(f"include names {error.filename}, which cannot be read ({error.strerror})") from error
    return included


def _files_of(given: Path) -> Iterator[tuple[Path, str | None]]:
    """Yield each file with None, and what of a folder is left out with the reason."""
    if given.is_dir():
        yield from walk_folder(given)
    else:
        yield given, None


def _place_of(given: Path) -> Path:
    """Return the path from the working folder. Raises NotSendable for what is not there, or leads out of it."""
    if not given.exists():
        raise NotSendable(f"include names {str(given)!r}, and there is no such file or folder")
    if not (given.is_file() or given.is_dir()):
        raise NotSendable(f"include names {str(given)!r}, which is neither a file nor a folder")
    here = Path.cwd()
    # A file that is a link goes under its own name, by which the code opens it.
    whole = given.resolve() if given.name in ("", "..") else given.parent.resolve() / given.name
    if not given.resolve().is_relative_to(here) or not whole.is_relative_to(here):
        raise NotSendable(
            f"include names {str(given)!r}, which lies outside of {here}: run this in the project's folder, from where "
            "the code opens its files"
        )
    return whole.relative_to(here)
