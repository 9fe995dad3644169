"""A source that is named: a Python file, a folder, a zip, an archive of TorchScript, or an installed package."""

from collections.abc import Mapping, Sequence
from os import PathLike
from os.path import isdir, isfile  # those of Path raise OSError for a name that no file can have
from pathlib import Path
from typing import Any

from tracehouse.client.errors import NotSendable
from tracehouse.client.sources.entrypoint import Entrypoint, arguments_as_json
from tracehouse.client.sources.included_files import read_included
from tracehouse.client.sources.packing import SOURCE_FILE, pack_files, texts_of
from tracehouse.client.sources.project_files import ProjectFiles
from tracehouse.client.submission import Submission, Upload
from tracehouse.introspection.source_folders import (
    WHY_NOT_KEY,
    describe_left_out,
    is_private_key,
    walk_folder,
)
from tracehouse.spec.model_name import name_of_source

_ARCHIVES = (".pt", ".pth")
_FILES = (".py", ".zip", *_ARCHIVES)
_SHOWN_MAX_CHARACTERS = 100
_FORMS = "write net.py:Net, project:package.net:Net, source.zip:net:Net, net.pt, or package:name for what is installed"


def send_named(
    named: str | Path,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    weights: Any = None,
    include: Sequence[str | Path] = (),
    imports: Sequence[str] = (),
) -> Submission:
    """Return the submission of what a text or a path names, and of its weights. Raises NotSendable."""
    try:
        return _send_named(named, args, kwargs, weights, include, imports)
    except OSError as error:
        raise NotSendable(f"{_quote(named)} names {error.filename}, which cannot be read ({error.strerror})") from error


def _send_named(
    named: str | Path,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None,
    weights: Any,
    include: Sequence[str | Path],
    imports: Sequence[str],
) -> Submission:
    path, entrypoint = _split(str(named))
    if path is not None and imports:
        raise NotSendable(f"{_quote(named)} imports what it needs itself: leave out imports")
    if path is not None and path.suffix in _ARCHIVES:
        return _send_archive(path, is_plain=not (args or kwargs or weights or include or entrypoint))
    if path is not None and path.suffix == ".zip":
        return _send_zip(path, entrypoint, arguments_as_json(args, kwargs), weights, include)
    name = name_of_source(path, entrypoint)
    if path is None:
        made_by = Entrypoint(entrypoint, args, kwargs, imports)
        files, entrypoint = made_by.files(), made_by.entrypoint
        notes, packages = made_by.notes, made_by.packages
    else:
        project = _read_file(path) if path.is_file() else _read_folder(path)
        files, notes, packages = project.files, project.notes, project.packages
    uploads, request = _weights(weights)
    included = read_included(include)
    files = {**files, **included.files}
    source, packed = pack_files(files)
    return Submission(
        name=name,
        source={**source, "entrypoint": entrypoint, "init": arguments_as_json(args, kwargs)},
        uploads={**packed, **uploads},
        weights=request,
        notes=[*notes, *included.notes],
        packages=packages,
        texts=texts_of(files),
    )


def _split(named: str) -> tuple[Path | None, str]:
    """Return the path that a text begins with, if there is one, and the entrypoint after it. Raises NotSendable."""
    first, _, rest = named.partition(":")
    path = Path(first)
    if path.suffix in _FILES:
        if not isfile(path):
            raise NotSendable(f"there is no file {_quote(first)}: write its path from {Path.cwd()}, or all of its path")
        _check_readable(repr(first), path)
        if path.suffix == ".py":
            if not path.stem.isidentifier():
                raise NotSendable(f"{path.name} cannot be imported: rename it to a Python name")
            _check_given(rest, named)
            return path, f"{path.stem}:{rest}"
        return path, rest
    if isdir(path) and ":" in rest:
        return path, rest
    if ":" not in named or "/" in first:
        raise NotSendable(f"{_quote(named)} names no source: {_FORMS}")
    return None, named


def _check_given(entrypoint: str, named: str) -> None:
    if not entrypoint:
        raise NotSendable(f"say what in {named} is to be traced: {named.rstrip(':')}:NAME")


def _send_archive(path: Path, *, is_plain: bool) -> Submission:
    if not is_plain:
        raise NotSendable(f"{path.name} is a model already, with its weights: give nothing beside it")
    file = f"model{path.suffix}"
    return Submission(name=name_of_source(path, ""), source={"archive": file}, uploads={file: path})


def _send_zip(
    path: Path, entrypoint: str, init: Mapping[str, Any], weights: Any, include: Sequence[str | Path]
) -> Submission:
    _check_given(entrypoint, str(path))
    if include:
        raise NotSendable(f"put the files of include into {path.name} itself")
    uploads, request = _weights(weights)
    source = {"file": SOURCE_FILE, "entrypoint": entrypoint, "init": init}
    return Submission(name_of_source(path, entrypoint), source, {SOURCE_FILE: path, **uploads}, request)


def _read_file(path: Path) -> ProjectFiles:
    """Return a file, and what it imports from its folder and from the project."""
    project = ProjectFiles([path.parent])
    project.add_file(path.name, path.read_bytes())
    return project


def _read_folder(given: Path) -> ProjectFiles:
    """Return all files of a folder, but hidden ones, environments, states, private keys, and what links lead to."""
    folder = given.resolve()
    project = ProjectFiles([folder], root=folder)
    for path, why in walk_folder(folder):
        name = path.relative_to(folder).as_posix()
        if why is not None:
            project.leave_out(name, why)
        elif is_private_key(name, data := path.read_bytes()):
            project.leave_out(name, WHY_NOT_KEY)
        else:
            project.add_file(name, data)
    project.notes += describe_left_out(project.left_out)
    return project


def _weights(given: Any) -> tuple[dict[str, Upload], dict[str, Any] | None]:
    """Return the file of weights, and the trace request's `weights`: from a file, or from a state dict."""
    if given is None:
        return {}, None
    if isinstance(given, Mapping):
        from tracehouse.client.sources.weights_file import FILE, write_tensors

        return {FILE: write_tensors(given)}, {"file": FILE}
    if not isinstance(given, str | PathLike):
        raise NotSendable(f"weights is of type {type(given).__name__}: give a file, or a state dict")
    path = Path(given)
    if not isfile(path):
        raise NotSendable(f"weights names {_quote(given)}, and there is no such file")
    _check_readable(f"weights names {str(given)!r}, which", path)
    file = f"weights{path.suffix}"
    return {file: path}, {"file": file}


def _check_readable(what: str, path: Path) -> None:
    """Raise NotSendable for a file that cannot be read, before a part of the request is sent."""
    try:
        with path.open("rb") as file:
            file.read(1)
    except OSError as error:
        raise NotSendable(f"{what} cannot be read ({error.strerror}): name a file that you may read") from error


def _quote(given: str | PathLike[Any]) -> str:
    """Return what was given in quotes, and of a long text its beginning."""
    text = str(given)
    return repr(text if len(text) <= _SHOWN_MAX_CHARACTERS else f"{text[:_SHOWN_MAX_CHARACTERS]}…")
