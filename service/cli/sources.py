"""Sources as a shell names them: a file, a zip, a directory, an installed package, or an archive of TorchScript."""

import io
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from service.cli.example_inputs import Uploads
from service.cli.existing_file import existing_file
from tracehouse.byte_units import MIB
from tracehouse.client.sources.project_files import ProjectFiles
from tracehouse.introspection.source_folders import (
    WHY_NOT_KEY,
    describe_left_out,
    is_private_key,
    walk_folder,
)
from tracehouse.spec.model_name import name_of_source
from tracehouse.spec.trace_spec import SOURCE_FILES_MAX, is_source_path

_ARCHIVES = (".pt", ".pth")
_PYTHON_NAME = r"[A-Za-z_]\w*"
_PACKAGE = re.compile(rf"{_PYTHON_NAME}(\.{_PYTHON_NAME})*", re.ASCII)
# Chosen: settings and vocabularies of a project are smaller, its weights and data sets are larger.
_FILE_MAX_BYTES = MIB
_TOO_LARGE = "as it has more than 1 MiB"
# The module that stands for the entrypoint of an installed package.
_STAND_IN = "entrypoint"


@dataclass(frozen=True)
class SourceArguments:
    """Which source, and what in it."""

    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="Source and entrypoint: net.py:Net, package.zip:pkg.net:Net, or a directory and what is in it, "
            "DIRECTORY pkg.net:Net. Or what an installed package has: timm:create_model. Or an archive of "
            "TorchScript: net.pt.",
        ),
    ]
    entrypoint: Annotated[
        str | None, typer.Argument(metavar="ENTRYPOINT", help="What in the source is meant, unless SOURCE says it.")
    ] = None

    @property
    def text(self) -> str:
        return self.source if self.entrypoint is None else f"{self.source}:{self.entrypoint}"


@dataclass(frozen=True)
class NamedSource:
    """A source that the shell names.

    `text` is how it was named, `source` that of a trace request, `model` the model's name if no other is given.
    `paths` says where the files of the source are on this disk, and `anchor` which file the entrypoint is in, if it is
    one. `left_out` says what of a directory is no part of the source. `package` is the installed package that has it.
    """

    text: str
    model: str
    source: dict[str, Any]
    paths: Mapping[str, Path] = field(default_factory=dict)
    anchor: Path | None = None
    left_out: Sequence[str] = ()
    package: str | None = None


def name_source(text: str, uploads: Uploads) -> NamedSource:
    """Return the source that the text names. Raises typer.BadParameter."""
    try:
        return _name_source(text, uploads)
    except OSError as error:  # of a directory that may not be entered, or of a name that is too long
        raise typer.BadParameter(f"{error.filename} cannot be read ({error.strerror})") from error


def _name_source(text: str, uploads: Uploads) -> NamedSource:
    place, _, entrypoint = text.partition(":")
    path = Path(place)
    if path.is_dir():
        return _name_directory(text, path, _in_module(path, _needed(entrypoint, f"{place} pkg.net:NAME")))
    if path.suffix in _ARCHIVES:
        return NamedSource(
            text=text,
            model=name_of_source(path, entrypoint),
            source={"archive": uploads.add(existing_file(path)), **({"entrypoint": entrypoint} if entrypoint else {})},
            anchor=path,
        )
    if path.suffix == ".zip":
        named = {"file": uploads.add(existing_file(path)), "entrypoint": _needed(entrypoint, f"{place}:pkg.net:NAME")}
        return NamedSource(text=text, model=name_of_source(path, entrypoint), source=named, anchor=path)
    if path.suffix == ".py":
        return _name_file(text, existing_file(path), _needed(entrypoint, f"{place}:NAME"), uploads)
    return _name_package(text, place, entrypoint)


def _needed(entrypoint: str, example: str) -> str:
    if not entrypoint:
        raise typer.BadParameter(f"say what is to be traced: {example}")
    return entrypoint


def _in_module(directory: Path, entrypoint: str) -> str:
    """Return the entrypoint, which names the module that it is in. Raises typer.BadParameter."""
    if ":" in entrypoint:
        return entrypoint
    place, module = directory, "pkg.net"
    if (directory / "__init__.py").exists():  # its modules are imported from the directory above
        directory = directory.resolve()
        place, module = Path(os.path.relpath(directory.parent)), directory.name
    raise typer.BadParameter(f"say in which module {entrypoint} is: {place} {module}:{entrypoint}")


def _name_file(text: str, path: Path, name: str, uploads: Uploads) -> NamedSource:
    """Return a file as a source, with what it imports from its own directory."""
    if not path.stem.isidentifier():
        raise typer.BadParameter(f"{path.name} cannot be imported: rename it to a Python name")
    data = path.read_bytes()
    project, imported = _find_imported(path, data)
    source: dict[str, Any]
    try:
        source = {"files": {path.name: _decode(data)} | imported}
    except UnicodeDecodeError:  # Python knows other encodings; JSON does not
        source = {"file": uploads.add(path)}
        if imported:
            project.left_out[f"as {path.name} is no text in UTF-8, and goes alone"] = [*imported]
            imported = {}
    return NamedSource(
        text=text,
        model=name_of_source(path, name),
        source={**source, "entrypoint": f"{path.stem}:{name}"},
        paths={path.name: path} | {name: path.parent / name for name in imported},
        anchor=path,
        left_out=[*describe_left_out(project.left_out), *project.notes],
    )


def _find_imported(path: Path, data: bytes) -> tuple[ProjectFiles, dict[str, str]]:
    """Return what a file needs, which says what of it is left out, and the texts of what is in the file's directory."""
    directory = path.parent.resolve()
    project = ProjectFiles([directory], root=directory)
    project.add_file(path.name, data)
    texts: dict[str, str] = {}
    for name in sorted(project.files.keys() - {path.name}):
        try:
            if not (directory / name).is_file():
                raise _NotSource(f"as it is in another directory than {path.name}")
            texts[name] = _text_of(name, project.files[name])
        except _NotSource as why:
            project.leave_out(name, str(why))
    return project, texts


def _name_package(text: str, package: str, entrypoint: str) -> NamedSource:
    """Return a source of one line, which imports the entrypoint from what is installed."""
    if package == "__main__":
        raise typer.BadParameter("__main__ is this command itself: name the file that the model is in, as net.py:Net")
    if not _PACKAGE.fullmatch(package) or Path(f"{package}.py").exists() or Path(package).exists():
        raise typer.BadParameter(
            f"{package!r} is neither a .py nor a .zip nor a .pt file, nor a directory; write net.py:Net"
        )
    name = _needed(entrypoint, f"{package}:NAME")
    if ":" in name:
        raise typer.BadParameter(
            f"there is no directory {package}: write its path from {Path.cwd()}, or all of its path"
        )
    if not _PACKAGE.fullmatch(name):
        raise typer.BadParameter(f"{name!r} is no name in {package}: write {package}:NAME")
    line = f"from {package} import {name.partition('.')[0]}\n"
    source = {"files": {f"{_STAND_IN}.py": line}, "entrypoint": f"{_STAND_IN}:{name}"}
    top = package.partition(".")[0]
    return NamedSource(text=text, model=name_of_source(None, package), source=source, package=top)


def _name_directory(named: str, directory: Path, entrypoint: str) -> NamedSource:
    """Return the text files of the directory as a source."""
    paths: dict[str, Path] = {}
    texts: dict[str, str] = {}
    left_out: dict[str, list[str]] = {}  # names, by why
    for path, why_left_out in walk_folder(directory):
        name = path.relative_to(directory).as_posix()
        if why_left_out is not None:
            left_out.setdefault(why_left_out, []).append(name)
            continue
        try:
            texts[name] = _read_text(name, path)
            paths[name] = path
        except _NotSource as why:
            left_out.setdefault(str(why), []).append(name)
    if len(texts) > SOURCE_FILES_MAX:
        raise typer.BadParameter(
            f"{directory} has {len(texts)} files, and a source has at most {SOURCE_FILES_MAX}: name the folder that "
            "the model is in"
        )
    module = entrypoint.partition(":")[0].removesuffix(".py").replace("/", ".")
    anchor = next((paths[name] for name in _files_of(module) if name in paths), None)
    return NamedSource(
        text=named,
        model=name_of_source(directory, module),
        source={"files": texts, "entrypoint": entrypoint},
        paths=paths,
        anchor=anchor,
        left_out=describe_left_out(left_out),
    )


def _files_of(module: str) -> tuple[str, str]:
    place = module.replace(".", "/")
    return f"{place}.py", f"{place}/__init__.py"


class _NotSource(Exception):
    """The file cannot be a part of the source; the text says why."""


def _read_text(name: str, path: Path) -> str:
    """Return the text of the file of this name in the source. Raises _NotSource."""
    _check_name(name)
    if path.stat().st_size > _FILE_MAX_BYTES:
        raise _NotSource(_TOO_LARGE)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise _NotSource(f"as it cannot be read ({error.strerror})") from error
    return _text_of(name, data)


def _text_of(name: str, data: bytes) -> str:
    """Return the file of this name in the source as a text. Raises _NotSource."""
    _check_name(name)
    if len(data) > _FILE_MAX_BYTES:
        raise _NotSource(_TOO_LARGE)
    if is_private_key(name, data):
        raise _NotSource(WHY_NOT_KEY)
    try:
        return _decode(data)
    except UnicodeDecodeError:
        raise _NotSource("as it is no text in UTF-8") from None


def _check_name(name: str) -> None:
    if not is_source_path(name):
        raise _NotSource("as its path has no Python name, or more than 200 characters")
    if name.partition("/")[0].removesuffix(".py") in sys.stdlib_module_names:
        raise _NotSource("as Python has a module of this name")


def _decode(data: bytes) -> str:
    """Return a text in UTF-8, each line of which ends as Python's own do. Raises UnicodeDecodeError."""
    return io.StringIO(data.decode(), newline=None).getvalue()
