"""The files of a project, found by what its modules import. What is installed stays out, and is named as a package."""

import ast
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from importlib.util import decode_source, resolve_name
from pathlib import Path

from tracehouse.introspection.source_folders import why_not_followed

# Every service has them.
_EVERYWHERE = sys.stdlib_module_names | {"torch", "numpy", "tracehouse", "cloudpickle"}
_INSTALLED_FOLDERS = {"site-packages", "dist-packages"}
_STANDARD_LIBRARY = [Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib")]


class ProjectFiles:
    """The project's own files that modules need: each file of them, and of what it imports, by its path in a source.

    They are looked for in these folders first, and then where Python looks; nothing is imported for that. `notes` say
    what cannot go along. `left_out` has, by the reason, what of the folder `root` is left out.
    """

    def __init__(self, folders: Sequence[Path] = (), root: Path | None = None) -> None:
        self._folders = [str(folder.resolve()) for folder in folders]
        self._root = root
        self.left_out: dict[str, list[str]] = {}
        self.files: dict[str, bytes] = {}
        self.notes: list[str] = []
        self._installed: set[str] = set()
        self._seen: set[str] = set()

    def add(self, module: str) -> bool:
        """Add a module, its packages and what they import. Return whether it is one of the project's own."""
        parents = [module.rsplit(".", depth)[0] for depth in range(module.count("."), 0, -1)]
        for name in [*parents, module]:
            if name not in self._seen:
                self._seen.add(name)
                self._add_file(name)
        return self.has(module)

    def has(self, module: str) -> bool:
        """Whether the module is among the files."""
        return self._path_of(module) is not None

    def text_of(self, module: str) -> str:
        """Return the text of a module; it is empty if it is not among the files."""
        path = self._path_of(module)
        return "" if path is None else _decode(self.files[path])

    def leave_out(self, path: str, why: str) -> None:
        """Note that what has this path in the root does not go along, and why."""
        paths = self.left_out.setdefault(why, [])
        if path not in paths:
            paths.append(path)

    def add_file(self, path: str, data: bytes) -> None:
        """Add a file by its path in the source and, if it is of Python, what it imports."""
        self.files[path] = data
        if path.endswith(".py"):
            folder = path.rpartition("/")[0].replace("/", ".")
            self.add_imports(_decode(data), folder)

    def add_imports(self, text: str, package: str) -> None:
        """Add what a text of Python imports; `package` is that of its module."""
        for name in _imported_names(text, package):
            self.add(name)

    def add_installed(self, module: str) -> None:
        """Note that the package of this module is needed."""
        top = module.partition(".")[0]
        if top not in _EVERYWHERE:
            self._installed.add(top)

    @property
    def packages(self) -> list[str]:
        """The packages that the service must have, each with the version that is installed here."""
        distributions = packages_distributions() if self._installed else {}
        return sorted({_describe(top, distributions.get(top, [])) for top in self._installed})

    def _path_of(self, module: str) -> str | None:
        path = module.replace(".", "/")
        return next((one for one in (f"{path}.py", f"{path}/__init__.py") if one in self.files), None)

    def _add_file(self, name: str) -> None:
        spec = _find_spec(name, self._folders)
        file = Path(spec.origin) if spec is not None and spec.has_location and spec.origin else None
        if spec is None or file is None:
            return
        if name.partition(".")[0] in _EVERYWHERE or not is_own(file):
            self.add_installed(name)
            return
        root = self._root
        if root is not None and file.is_relative_to(root) and (why := why_not_followed(file, root)) is not None:
            self.leave_out(file.relative_to(root).as_posix(), why)
            return
        if file.suffix != ".py":
            self.notes.append(f"{name} is compiled ({file.name}) and was left out: only Python files are sent")
            return
        if (target := file.resolve()).suffix != ".py" and name not in sys.modules:
            self.notes.append(f"{name} was left out: it is a link to {target}, which is no Python file")
            return
        is_package = spec.submodule_search_locations is not None
        path = name.replace(".", "/") + ("/__init__.py" if is_package else ".py")
        try:
            data = file.read_bytes()
        except OSError as error:
            self.notes.append(f"{name} was left out: {file} cannot be read ({error.strerror})")
            return
        self.add_file(path, data)


def _decode(data: bytes) -> str:
    try:
        return decode_source(data)
    except (SyntaxError, UnicodeDecodeError):  # a file of a folder that nobody imports
        return ""


def is_own(file: Path) -> bool:
    """Whether the file is of somebody's own project: neither installed nor Python's own."""
    file = file.resolve()
    if any(file.is_relative_to(folder) for folder in _STANDARD_LIBRARY):
        return False
    return not any(map(_is_of_installer, [*file.parents]))


@cache
def _is_of_installer(folder: Path) -> bool:
    """Whether pip has put packages into this folder, whatever its name is."""
    return folder.name in _INSTALLED_FOLDERS or next(folder.glob("*.dist-info"), None) is not None


def is_installed(module: str) -> bool:
    """Whether Python finds the module, wherever that is."""
    return _find_spec(module) is not None


def _find_spec(name: str, folders: Sequence[str] = ()) -> ModuleSpec | None:
    """Return the spec of a module, which is not imported for that; in these folders first."""
    parent, _, _ = name.rpartition(".")
    if folders and not parent and (found := PathFinder.find_spec(name, [*folders])) is not None:
        return found
    loaded = getattr(sys.modules.get(name), "__spec__", None)
    if isinstance(loaded, ModuleSpec) and not folders:
        return loaded
    if not parent:
        return None if name in sys.builtin_module_names else PathFinder.find_spec(name)
    outer = _find_spec(parent, folders)
    if outer is None or outer.submodule_search_locations is None:
        return None
    return PathFinder.find_spec(name, [*outer.submodule_search_locations])


def _imported_names(text: str, package: str) -> Iterator[str]:
    """Yield the modules that a text imports, and the names that it imports from them: these may be modules too."""
    try:
        tree = ast.parse(text)
    except SyntaxError:  # nobody has imported it: the service says what is wrong if anybody does
        return
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                yield from (alias.name for alias in node.names)
            case ast.ImportFrom():
                yield from _names_of(node, package)


def _names_of(node: ast.ImportFrom, package: str) -> Iterable[str]:
    try:
        base = resolve_name("." * node.level + (node.module or ""), package) if node.level else node.module or ""
    except ImportError:  # it leaves the top-level package
        return []
    return [base, *(f"{base}.{alias.name}" for alias in node.names if alias.name != "*")]


def _describe(top: str, distributions: list[str]) -> str:
    name = distributions[0] if distributions else top
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return name
