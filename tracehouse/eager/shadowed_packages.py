"""Packages that a submitted source shadows: it has modules of the same names, such as `service` or `jinja2`.

The source's modules get the names in `sys.modules`, because whatever looks a class up by its `__module__` looks there:
pickle, inspect, dataclasses, typing.get_type_hints, torch.jit.script and torch.export. The program's modules of these
names are put aside. They hold references to each other already, so only their later imports have to be led to them.
For that `builtins.__import__` is replaced, and asks who imports. Nothing is replaced while no name is shadowed.
"""

import builtins
import importlib.util
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.abc import Loader
from types import ModuleType
from typing import Any

OURS = frozenset({"tracehouse", "service", "workers", "migrations"})
# If these packages import a module that was put aside, they get it: our own, and all that torch and our children need.
# Any other library gets the source's module, as it would if the source's folder came first in sys.path.
PROGRAM = OURS | frozenset({
    "torch", "functorch", "torchgen", "filelock", "fsspec", "jinja2", "markupsafe", "mpmath", "networkx", "setuptools",
    "sympy", "triton",
    "PIL", "annotated_types", "numpy", "orjson", "pydantic", "pydantic_core", "safetensors", "typing_extensions",
    "typing_inspection",
})  # fmt: skip


class ShadowedPackages:
    """Packages that could be imported before a source was installed that has modules of the same names.

    `loader` loads the source's modules.
    """

    def __init__(self, names: Iterable[str], loader: Loader) -> None:
        self._names = {name for name in names if _can_be_imported(name)}
        self._loader = loader
        self._modules: dict[str, ModuleType] = {}
        self._lock = threading.RLock()
        self._depth = 0
        self._import_before = builtins.__import__

    def put_aside(self) -> None:
        """Take the packages out of `sys.modules`, and find them again for the program's own imports."""
        if self._names:
            self._modules = self._take_out()
            self._import_before, builtins.__import__ = builtins.__import__, self._import

    def put_back(self) -> None:
        """Put the packages back into `sys.modules`, in place of the source's modules."""
        if self._names:
            self._take_out()
            sys.modules.update(self._modules)
            builtins.__import__ = self._import_before

    def hides(self, module: str) -> bool:
        """Whether the source's module of this name is hidden now, because the program is importing its own."""
        return self._depth > 0 and _package_of(module) in self._names

    def _import(
        self,
        name: str,
        globals: Mapping[str, object] | None = None,  # noqa: A002 - called so by Python
        locals: Mapping[str, object] | None = None,  # noqa: A002
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """Import as `builtins.__import__` does; the program's own code gets what it would get without the source."""
        if self._is_of_program(globals) and _imported_package(name, globals, level) in self._names:
            try:
                with self._in_place():
                    return self._import_before(name, globals, locals, fromlist, level)
            except ModuleNotFoundError as error:
                # torch imports for the source, too: a class that it unpickles may be of the source's `service.net`.
                if error.name is None or _package_of(error.name) not in self._names:
                    raise
        return self._import_before(name, globals, locals, fromlist, level)

    def _is_of_program(self, importer: Mapping[str, Any] | None) -> bool:
        if importer is None or importer.get("__loader__") is self._loader:
            return False
        package = _package_of(str(importer.get("__name__")))
        return package in PROGRAM or package in self._names

    @contextmanager
    def _in_place(self) -> Iterator[None]:
        """Put the shadowed modules into `sys.modules` during one import, which may import more of them."""
        with self._lock:
            of_source = self._take_out() if self._depth == 0 else {}
            if self._depth == 0:
                sys.modules.update(self._modules)
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                if self._depth == 0:
                    self._modules = self._take_out()
                    sys.modules.update(of_source)

    def _take_out(self) -> dict[str, ModuleType]:
        return {name: sys.modules.pop(name) for name in list(sys.modules) if _package_of(name) in self._names}


def _can_be_imported(name: str) -> bool:
    return name in sys.modules or importlib.util.find_spec(name) is not None


def _imported_package(name: str, importer: Mapping[str, Any] | None, level: int) -> str:
    """Return the top-level name of what an import statement names."""
    if level == 0 or importer is None:
        return _package_of(name)
    return _package_of(str(importer.get("__package__") or importer.get("__name__")))


def _package_of(module: str) -> str:
    return module.partition(".")[0]
