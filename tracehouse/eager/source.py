"""The submitted source: Python modules that are imported from memory, never from disk, and the files beside them."""

import importlib
import importlib.util
import io
import linecache
import posixpath
import random
import stat
import sys
import zipfile
from collections.abc import Mapping, Sequence
from importlib.abc import InspectLoader, MetaPathFinder, PathEntryFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.resources.abc import TraversableResources
from pathlib import Path, PurePosixPath
from types import CodeType, MappingProxyType, ModuleType
from typing import BinaryIO, Self

import numpy as np
import torch

from tracehouse.eager.error_translation import is_out_of_memory, out_of_memory_error, remedy_of, translate_errors
from tracehouse.eager.memory_files import MemoryFiles
from tracehouse.eager.shadowed_packages import OURS, ShadowedPackages
from tracehouse.errors import (
    EntrypointNotFound,
    SourceImportFailed,
    SourceRaised,
    SourceSyntaxError,
    SourceTooLarge,
    SourceUnreadable,
    SourceUnsafe,
    TraceError,
)
from tracehouse.introspection import user_lines
from tracehouse.introspection.paths import SOURCE_FOLDER
from tracehouse.source_lines import split_source

FILES_MAX = 5000  # chosen
_STEP_BYTES = 2**20
# A source cannot replace these: their compiled code asks `sys.modules` for modules by name, so that Python, torch and
# numpy would find the source's in place of their own. All other names are the source's (shadowed_packages).
_TAKEN = sys.stdlib_module_names | {"torch", "numpy"}


# Entries of `sys.path` and of packages' `__path__` that are folders of a source.
_opened_folders: set[str] = set()


class Source(MetaPathFinder, InspectLoader):
    """The source's files, as bytes by their paths. While it is installed, Python finds its modules before all others.

    Its files seem to lie in SOURCE_FOLDER (memory_files), which is first in `sys.path`. A source may put more of its
    folders there. Raises SourceUnsafe if a module has the name of one of Python's, torch or numpy.
    """

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = dict(files)
        self._memory = MemoryFiles(self._files)
        self._modules = {_module_name(path): path for path in files if path.endswith(".py")}
        self._folders = {str(parent) for path in self._modules.values() for parent in PurePosixPath(path).parents} - {
            "."
        }
        self._imported: dict[str, str] = {}  # the paths of modules, by the names under which they were found
        self._path_before: list[str] = []  # sys.path, before it is installed
        self._shadowed: ShadowedPackages | None = None  # while it is installed
        _check_not_taken(*sorted(self._top_names()))

    @classmethod
    def from_text(cls, files: Mapping[str, str]) -> Self:
        """Return a source of files that are given as text. Raises SourceUnsafe."""
        return cls(_as_bytes(files))

    @classmethod
    def from_upload(
        cls, file: BinaryIO, name: str, module: str, max_bytes: int, texts: Mapping[str, str] = MappingProxyType({})
    ) -> Self:
        """Return the source in a `.zip`, or in one Python file, which becomes `module` whatever the file's name.

        `texts` are files beside those in a `.zip`, or in their place.
        Raises SourceTooLarge over `max_bytes` bytes (unpacked) or FILES_MAX files, SourceUnreadable and SourceUnsafe.
        """
        if name.lower().endswith(".zip"):
            return cls(_unpack(file, max_bytes) | _as_bytes(texts))
        text = file.read(max_bytes + 1)
        if len(text) > max_bytes:
            raise SourceTooLarge(f"the source has more than {max_bytes} bytes", limit_bytes=max_bytes)
        return cls({module.replace(".", "/") + ".py": text})

    def install(self) -> None:
        """Make the modules importable and the files readable, and the modules' lines too: to tracebacks, `inspect` and
        torch.jit.script."""
        self._shadowed = ShadowedPackages(self._shadowing_names(), self)
        self._shadowed.put_aside()
        self._memory.install()
        self._path_before = [*sys.path]
        sys.path.insert(0, SOURCE_FOLDER)
        sys.path_hooks.insert(0, self._open_folder)
        _forget_folders()
        sys.meta_path.insert(0, self)
        for name, path in self._modules.items():
            text = self._files[path].decode(errors="replace")
            # Without a modification time, linecache keeps the lines though there is no such file on a disk.
            lines = len(text), None, split_source(text, keepends=True), path
            linecache.cache[path] = linecache.cache[_place(path)] = lines
            user_lines.submitted[path] = name

    def uninstall(self) -> None:
        """Undo `install`: the modules are forgotten, and others of their names are found again."""
        sys.meta_path.remove(self)
        sys.path_hooks.remove(self._open_folder)
        sys.path[:] = self._path_before
        _forget_folders()
        self._memory.uninstall()
        for path in self._modules.values():
            linecache.cache.pop(path, None)
            linecache.cache.pop(_place(path), None)
            user_lines.submitted.pop(path, None)
        user_lines.other_names.difference_update(self._imported)
        for name in [name for name, module in sys.modules.items() if self._has_loaded(module)]:
            del sys.modules[name]
        if self._shadowed is not None:
            self._shadowed.put_back()

    def import_module(self, name: str, seed: int) -> ModuleType:
        """Import the entrypoint's module. `seed` decides what it draws at random.

        Raises EntrypointNotFound, SourceSyntaxError, SourceImportFailed, and SourceRaised with the user's line.
        """
        if name not in self._modules:
            raise EntrypointNotFound(
                f"the source has no module {name!r}; it has {', '.join(sorted(self._modules)[:50]) or 'none'}",
                module=name,
                modules=sorted(self._modules)[:50],
            )
        seed_all(seed)
        with translate_errors(SourceRaised, f"importing {name!r} raised"):
            try:
                return importlib.import_module(name)
            except SyntaxError as error:
                raise SourceSyntaxError(_syntax_text(error), **user_lines.error_facts(error)) from error
            except ImportError as error:
                facts = user_lines.error_facts(error)
                where = f" ({facts['file']}, line {facts['line']})" if "line" in facts else ""
                raise SourceImportFailed(
                    user_lines.error_text(error) + where, module=error.name, **facts, **remedy_of(error)
                ) from error

    def modules_in(self, package: str) -> list[str]:
        """Return the names of the package's modules, including those in its subpackages."""
        return sorted(name for name in self._modules if name.startswith(package + "."))

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if self._shadowed is not None and self._shadowed.hides(fullname):
            return None
        if fullname in self._modules:
            return self._spec(fullname, self._modules[fullname])
        folder = fullname.replace(".", "/")
        if folder in self._folders:  # a namespace package
            return PathFinder.find_spec(fullname, [posixpath.dirname(_place(folder))])
        return None

    def find_in_folder(self, folder: str, fullname: str) -> ModuleSpec | None:
        """Return the spec of a module in a folder of the source, as Python would find it in a folder on a disk."""
        if self._shadowed is not None and self._shadowed.hides(fullname):
            return None
        place = posixpath.join(folder, fullname.rpartition(".")[2])
        for path in (f"{place}/__init__.py", f"{place}.py"):
            if path in self._files:
                _check_not_taken(fullname)
                return self._spec(fullname, path)
        if self._memory.has_folder(_place(place)):
            spec = ModuleSpec(fullname, None, is_package=True)
            spec.submodule_search_locations = [_place(place)]
            return spec
        return None

    def is_package(self, fullname: str) -> bool:
        return self._path_of(fullname).endswith("__init__.py")

    def get_source(self, fullname: str) -> str:
        text = self._files[self._path_of(fullname)]
        return importlib.util.decode_source(text)

    def get_code(self, fullname: str) -> CodeType:
        path = self._path_of(fullname)
        before, null, _ = self._files[path].partition(b"\0")
        if null:  # Python refuses a null byte without saying where it is
            raise SyntaxError("source code cannot contain null bytes", (path, before.count(b"\n") + 1, None, None))
        return self.source_to_code(self._files[path], path)

    def get_filename(self, fullname: str) -> str:
        return _place(self._path_of(fullname))

    def get_data(self, path: str) -> bytes:
        """Return a file of the source, for `pkgutil.get_data`. Raises FileNotFoundError."""
        place = self._memory.path_of(path)
        normal = "" if place is None else place.removeprefix(SOURCE_FOLDER + "/")
        if normal not in self._files:
            raise FileNotFoundError(path)
        return self._files[normal]

    def get_resource_reader(self, fullname: str) -> TraversableResources:
        """Return what `importlib.resources` reads a package's files by."""
        return _Resources(Path(self.get_filename(fullname)).parent)

    def _spec(self, fullname: str, path: str) -> ModuleSpec:
        self._imported[fullname] = path
        if self._modules.get(fullname) != path:  # it was found in a folder that the source put into sys.path
            user_lines.other_names.add(fullname)
        is_package = path.endswith("/__init__.py")
        spec = ModuleSpec(fullname, self, origin=_place(path), is_package=is_package)
        spec.has_location = True  # so that __file__ is set
        if spec.submodule_search_locations is not None:
            spec.submodule_search_locations.append(posixpath.dirname(_place(path)))
        return spec

    def _open_folder(self, entry: str) -> "_SourceFolder":
        """Return the finder for a folder of the source, which stands in `sys.path`. Raises ImportError for others."""
        place = self._memory.path_of(entry)
        if place is None or not self._memory.has_folder(place):
            raise ImportError(f"{entry!r} is no folder of the source")
        _opened_folders.add(entry)
        return _SourceFolder(self, place.removeprefix(SOURCE_FOLDER).removeprefix("/"))

    def _path_of(self, fullname: str) -> str:
        return self._imported.get(fullname) or self._modules[fullname]

    def _has_loaded(self, module: object) -> bool:
        """Whether it is a module or a namespace package of this source; anything may stand in sys.modules."""
        there = getattr(module, "__dict__", {})
        spec = there.get("__spec__")
        # As text, for Python would look for the folders again if they were gone through.
        folders = str(spec.submodule_search_locations) if isinstance(spec, ModuleSpec) else ""
        return there.get("__loader__") is self or f"{SOURCE_FOLDER}/" in folders

    def _shadowing_names(self) -> set[str]:
        """Return the names that imports may find in the source before packages of the program. If the source changes
        `sys.path`, our packages' names may be of any of its folders."""
        names = self._top_names()
        if any(b"sys.path" in self._files[path] for path in self._modules.values()):
            names |= OURS & {part for name in self._modules for part in name.split(".")}
        return names

    def _top_names(self) -> set[str]:
        return {name.partition(".")[0] for name in self._modules}


class _SourceFolder(PathEntryFinder):
    """Finds modules in one folder of a source, for an entry of `sys.path` or of a package's `__path__`."""

    def __init__(self, source: Source, folder: str) -> None:
        self._source = source
        self._folder = folder

    def find_spec(self, fullname: str, target: ModuleType | None = None) -> ModuleSpec | None:  # noqa: ARG002
        return self._source.find_in_folder(self._folder, fullname)


def _forget_folders() -> None:
    """Let Python ask `sys.path_hooks` again for folders of a source."""
    while _opened_folders:
        entry = _opened_folders.pop()
        if isinstance(sys.path_importer_cache.get(entry), _SourceFolder):
            del sys.path_importer_cache[entry]


class _Resources(TraversableResources):
    """The files beside a module."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def files(self) -> Path:
        return self._folder


def seed_all(seed: int) -> None:
    """Seed the random generators of torch, Python and numpy. numpy takes only 32 bits of the seed."""
    _seed_torch(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)


def _seed_torch(seed: int) -> None:
    """Seed the random generators of torch.

    For each kind of device, torch.manual_seed notes the call with the whole stack as text, until such a device is used
    first. A build of torch that has only the CPU never uses that.
    """
    if torch.accelerator.current_accelerator() is None:
        torch.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)


def _check_not_taken(*names: str) -> None:
    taken = [name for name in names if name in _TAKEN]
    if taken:
        raise SourceUnsafe(
            f"a file of the source is called {taken[0]!r}, like a module that Python, torch or numpy looks up by "
            "name: rename the file",
            names=taken,
            remedy="rename the file, and the module in the entrypoint",
        )


def _place(path: str) -> str:
    """Return where a file or a folder of the source seems to lie."""
    return f"{SOURCE_FOLDER}/{path}"


def _module_name(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _syntax_text(error: SyntaxError) -> str:
    return f"{error.msg} ({error.filename}, line {error.lineno})"


def _as_bytes(texts: Mapping[str, str]) -> dict[str, bytes]:
    return {path: text.encode(errors="surrogatepass") for path, text in texts.items()}


def _unpack(file: BinaryIO, max_bytes: int) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(file) as archive:
            return _read_all(archive, max_bytes)
    except TraceError:
        raise
    except Exception as error:  # for a broken file, zipfile and its decompressors raise errors of many kinds
        if is_out_of_memory(error):
            raise out_of_memory_error(error) from error
        raise SourceUnreadable(f"the source cannot be read as a zip archive: {user_lines.error_text(error)}") from error


def _read_all(archive: zipfile.ZipFile, max_bytes: int) -> dict[str, bytes]:
    entries = [entry for entry in archive.infolist() if not entry.is_dir()]
    if len(entries) > FILES_MAX:
        raise SourceTooLarge(f"the source has more than {FILES_MAX} files", limit_files=FILES_MAX, actual=len(entries))
    files: dict[str, bytes] = {}
    left = max_bytes
    for entry in archive.infolist():
        _check_name(entry)
    for entry in entries:
        name = entry.filename.removeprefix("./")
        if name in files:  # other programs than Python's take the first, and show code that would not run
            raise SourceUnsafe(f"the source archive holds {name!r} twice", name=name[:200])
        files[name] = data = _read(archive, entry, left, max_bytes)
        left -= len(data)
    return files


def _check_name(entry: zipfile.ZipInfo) -> None:
    name = entry.orig_filename
    parts = PurePosixPath(name).parts
    leaves = name.startswith("/") or ".." in parts or "\\" in name or "\0" in name or name[1:2] == ":"
    if leaves or stat.S_ISLNK(entry.external_attr >> 16):
        raise SourceUnsafe(f"the source archive holds {name!r}, which would lie outside it", name=name[:200])


def _read(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, left: int, max_bytes: int) -> bytes:
    """Return the unpacked bytes. They are counted as they are unpacked, because the declared sizes may be false."""
    data = io.BytesIO()
    with archive.open(entry) as stream:
        while step := stream.read(min(_STEP_BYTES, left + 1 - data.tell())):
            data.write(step)
            if data.tell() > left:
                raise SourceTooLarge(f"the source unpacks to more than {max_bytes} bytes", limit_bytes=max_bytes)
    return data.getvalue()
