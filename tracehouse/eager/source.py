"""The submitted source: Python modules that are imported from memory, never from disk."""

import importlib
import importlib.util
import io
import linecache
import random
import stat
import sys
import zipfile
from collections.abc import Mapping, Sequence
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import PurePosixPath
from types import CodeType, ModuleType
from typing import BinaryIO, Self

import numpy as np
import torch

from tracehouse.eager.error_translation import is_out_of_memory, out_of_memory_error, remedy_of, translate_errors
from tracehouse.eager.shadowed_packages import ShadowedPackages
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

FILES_MAX = 5000  # chosen
_STEP_BYTES = 2**20
# A source cannot replace these: their compiled code asks `sys.modules` for modules by name, so that Python, torch and
# numpy would find the source's in place of their own. All other names are the source's (shadowed_packages).
_TAKEN = sys.stdlib_module_names | {"torch", "numpy"}


class Source(MetaPathFinder, InspectLoader):
    """The source's files, as bytes by their paths. While it is installed, Python finds its modules before all others.

    Raises SourceUnsafe if a module has the name of one of Python's, torch or numpy.
    """

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = dict(files)
        self._modules = {_module_name(path): path for path in files if path.endswith(".py")}
        self._folders = {str(parent) for path in self._modules.values() for parent in PurePosixPath(path).parents} - {
            "."
        }
        self._shadowed: ShadowedPackages | None = None  # while it is installed
        taken = sorted(name for name in self._top_names() if name in _TAKEN)
        if taken:
            raise SourceUnsafe(
                f"a file of the source is called {taken[0]!r}, like a module that Python, torch or numpy looks up by "
                "name: rename the file",
                names=taken,
                remedy="rename the file, and the module in the entrypoint",
            )

    @classmethod
    def from_text(cls, files: Mapping[str, str]) -> Self:
        """Return a source of files that are given as text. Raises SourceUnsafe."""
        return cls({path: text.encode(errors="surrogatepass") for path, text in files.items()})

    @classmethod
    def from_upload(cls, file: BinaryIO, name: str, module: str, max_bytes: int) -> Self:
        """Return the source in a `.zip`, or in one Python file, which becomes `module` whatever the file's name.

        Raises SourceTooLarge over `max_bytes` bytes (unpacked) or FILES_MAX files, SourceUnreadable and SourceUnsafe.
        """
        if name.lower().endswith(".zip"):
            return cls(_unpack(file, max_bytes))
        text = file.read(max_bytes + 1)
        if len(text) > max_bytes:
            raise SourceTooLarge(f"the source has more than {max_bytes} bytes", limit_bytes=max_bytes)
        return cls({module.replace(".", "/") + ".py": text})

    def install(self) -> None:
        """Make the modules importable, and make their lines readable to tracebacks, `inspect` and torch.jit.script."""
        self._shadowed = ShadowedPackages(self._top_names(), self)
        self._shadowed.put_aside()
        sys.meta_path.insert(0, self)
        for name, path in self._modules.items():
            text = self._files[path].decode(errors="replace")
            # Without a modification time, linecache keeps the lines though there is no such file.
            linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
            user_lines.submitted[path] = name

    def uninstall(self) -> None:
        """Undo `install`: the modules are forgotten, and others of their names are found again."""
        sys.meta_path.remove(self)
        for path in self._modules.values():
            linecache.cache.pop(path, None)
            user_lines.submitted.pop(path, None)
        for name in [name for name, module in sys.modules.items() if getattr(module, "__loader__", None) is self]:
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
        folder = fullname.replace(".", "/")
        if fullname in self._modules:
            file = self._modules[fullname]
            spec = ModuleSpec(fullname, self, origin=file, is_package=self.is_package(fullname))
            spec.has_location = True  # so that __file__ is set
            if spec.submodule_search_locations is not None:
                spec.submodule_search_locations.append(folder)
            return spec
        if folder in self._folders:  # a namespace package
            spec = ModuleSpec(fullname, None, is_package=True)
            spec.submodule_search_locations = [folder]
            return spec
        return None

    def is_package(self, fullname: str) -> bool:
        return self._modules[fullname].endswith("__init__.py")

    def get_source(self, fullname: str) -> str:
        text = self._files[self._modules[fullname]]
        return importlib.util.decode_source(text)

    def get_code(self, fullname: str) -> CodeType:
        path = self._modules[fullname]
        before, null, _ = self._files[path].partition(b"\0")
        if null:  # Python refuses a null byte without saying where it is
            raise SyntaxError("source code cannot contain null bytes", (path, before.count(b"\n") + 1, None, None))
        return self.source_to_code(self._files[path], path)

    def get_filename(self, fullname: str) -> str:
        return self._modules[fullname]

    def get_data(self, path: str) -> bytes:
        """Return a file of the source, for `pkgutil.get_data`. Raises FileNotFoundError."""
        normal = str(PurePosixPath(path))
        if normal not in self._files:
            raise FileNotFoundError(path)
        return self._files[normal]

    def _top_names(self) -> set[str]:
        return {name.partition(".")[0] for name in self._modules}


def seed_all(seed: int) -> None:
    """Seed the random generators of torch, Python and numpy. numpy takes only 32 bits of the seed."""
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)


def _module_name(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _syntax_text(error: SyntaxError) -> str:
    return f"{error.msg} ({error.filename}, line {error.lineno})"


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
        files[entry.filename.removeprefix("./")] = data = _read(archive, entry, left, max_bytes)
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
