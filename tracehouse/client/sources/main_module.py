"""A module of what a script or the cells of a notebook define.

The script itself is not sent: it would run again, and most scripts train a model or ask the service. Only the classes
and functions that the model needs are taken, from the source that they were made from. What they take from the module
around them goes along as it is now: modules and names are imported, plain values are written down, and other values are
pickled.
"""

import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from tracehouse.client.sources.definitions import (
    Definition,
    changed_names,
    decorated_function,
    find_definition,
    text_of_file,
)
from tracehouse.client.sources.project_files import ProjectFiles
from tracehouse.source_lines import split_source

_LITERAL_MAX_CHARACTERS = 2000
_RESERVED = sys.stdlib_module_names | {"torch", "numpy", "tracehouse", "service", "workers", "migrations"}


class MainModule:
    """The module that stands for `__main__` in a submission. It grows by what is asked for.

    `values` are those that cannot be written down.
    """

    def __init__(self, project: ProjectFiles) -> None:
        self._project = project
        self._module: ModuleType = sys.modules["__main__"]
        self._space = vars(self._module)
        self._definitions: dict[str, Definition] = {}
        self._aliases: dict[str, str] = {}  # the definition that another name of the module has
        self._imports: dict[str, None] = {}
        self.values: dict[str, Any] = {}
        self.notes: dict[str, None] = {}
        self.name = self._choose_name()

    @property
    def is_needed(self) -> bool:
        """Whether anything of it was asked for."""
        return bool(self._definitions)

    def find_decorated(self, value: Any) -> str | None:
        """Return the name of what a decorator has made of a function of `__main__`, whose definition is taken."""
        inner = decorated_function(value)
        if inner is None or inner.__module__ != "__main__" or self._space.get(inner.__qualname__) is not value:
            return None
        return inner.__qualname__ if self.define(inner) else None

    def define(self, value: type | FunctionType) -> bool:
        """Take the definition of a class or function of `__main__`. Return false if there is no source of it."""
        found = find_definition(value, self._file)
        if found is None:
            return False
        known = self._definitions.get(found.name)
        if known is not None:
            return known == found
        self._definitions[found.name] = found
        self._check_is_current(value, found)
        for name in sorted(found.at_once | found.later):
            if name in self._space and name != found.name and not name.startswith("__"):
                self._take(name, self._space[name])
        self._import_dotted(found)
        self._project.add_imports(found.text, self._package)
        return True

    @property
    def path(self) -> str:
        """Where the module lies in the submission."""
        return self.name.replace(".", "/") + ".py"

    def write(self, before: Sequence[str], after: Sequence[str]) -> str:
        """Return the module's text, with further statements before and after the definitions.

        The lines of a script stay where they are.
        """
        futures = {name: None for each in self._definitions.values() for name in each.futures}
        head = [f"from __future__ import {', '.join(futures)}"] if futures else []
        head += [*self._imports, *before]
        tail = [f"{alias} = {name}" for alias, name in self._aliases.items()]
        files = {definition.file for definition in self._definitions.values()}
        body = self._in_place if files == {self._file} else self._one_after_another
        return "\n".join([*body(head), *tail, *after]) + "\n"

    def _take(self, name: str, value: Any) -> None:
        """Take what a definition knows under a name."""
        if isinstance(value, ModuleType):
            self._take_module(name, value)
        elif isinstance(value, type | FunctionType) and value.__module__ == "__main__" and self.define(value):
            if value.__qualname__ != name:
                self._aliases[name] = value.__qualname__
        elif self.find_decorated(value) == name:
            return
        elif (where := _importable(value)) is not None:
            module, found = where
            self._project.add(module)
            self._imports[f"from {module} import {found}" + ("" if found == name else f" as {name}")] = None
        elif (literal := _literal(value)) is not None:
            self._imports[f"{name} = {literal}"] = None
        else:
            self.values[name] = value

    def _take_module(self, name: str, module: ModuleType) -> None:
        if sys.modules.get(module.__name__) is not module:
            self.notes[f"{name} was left out: it is a module that nobody else can import"] = None
            return
        self._project.add(module.__name__)
        self._imports[f"import {module.__name__}" + ("" if module.__name__ == name else f" as {name}")] = None

    def _import_dotted(self, definition: Definition) -> None:
        """Import `scipy.signal` if the code says that and the module has only imported `scipy`."""
        for dotted in sorted(definition.dotted):
            first, _, rest = dotted.partition(".")
            module = self._space.get(first)
            full = f"{module.__name__}.{rest}" if isinstance(module, ModuleType) else ""
            if full in sys.modules and isinstance(sys.modules[full], ModuleType):
                self._project.add(full)
                self._imports[f"import {full}"] = None

    def _check_is_current(self, value: type | FunctionType, definition: Definition) -> None:
        """Say it if the file was changed since its code was loaded."""
        for name in changed_names(value, text_of_file(definition.file)):
            self.notes[
                f"{name} is another one here than in {self.path}, and that one was sent: run its definition again, so "
                "that both are the same"
            ] = None

    def _in_place(self, head: list[str]) -> Iterator[str]:
        """Yield the lines of a script with nothing but the definitions, and the head above them."""
        definitions = sorted(self._definitions.values(), key=lambda one: one.first)
        room = definitions[0].first - 1
        if len(head) > room:
            head = ["; ".join(head)] if head else []
        yield from head
        line = max(len(head), 0)
        for definition in definitions:
            yield from [""] * (definition.first - 1 - line)
            yield from split_source(definition.text)
            line = definition.last

    def _one_after_another(self, head: list[str]) -> Iterator[str]:
        yield from head
        for definition in self._in_order():
            yield from ["", "", *split_source(definition.text)]

    def _in_order(self) -> Iterator[Definition]:
        """Yield the definitions, each after those that it needs at once."""
        done: set[str] = set()

        def with_needed(definition: Definition) -> Iterator[Definition]:
            if definition.name not in done:
                done.add(definition.name)
                for name in sorted(definition.at_once):
                    if name in self._definitions:
                        yield from with_needed(self._definitions[name])
                yield definition

        for definition in [*self._definitions.values()]:
            yield from with_needed(definition)

    @property
    def _file(self) -> str | None:
        """The file of the script; None in a notebook."""
        file = getattr(self._module, "__file__", None)
        return None if _is_notebook() else file

    @property
    def _package(self) -> str:
        return self.name.rpartition(".")[0]

    def _choose_name(self) -> str:
        spec = getattr(self._module, "__spec__", None)
        if spec is not None and self._file is not None:  # python -m package.train
            return str(spec.name)
        stem = Path(self._file).stem if self._file is not None else "notebook"
        return stem if stem.isidentifier() and stem not in _RESERVED else "main_script"


def _is_notebook() -> bool:
    return hasattr(sys.modules["__main__"], "get_ipython") or "get_ipython" in vars(sys.modules["__main__"])


def _importable(value: Any) -> tuple[str, str] | None:
    """Return the module and the name by which everybody can import a class or function."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or module == "__main__" or "." in name:
        return None
    is_there = getattr(sys.modules.get(module), name, None) is value
    return (module, name) if is_there else None


def _literal(value: Any) -> str | None:
    """Return a plain value as Python writes it; None if it is no plain value."""
    text = repr(value) if _is_plain(value) else ""
    if not text or len(text) > _LITERAL_MAX_CHARACTERS:
        return None
    try:
        return text if repr(ast.literal_eval(text)) == text else None
    except (ValueError, SyntaxError):  # nan and inf
        return None


def _is_plain(value: Any) -> bool:
    if type(value) in (list, tuple):
        return all(map(_is_plain, value))
    if type(value) is dict:
        return all(map(_is_plain, [*value.keys(), *value.values()]))
    return value is None or type(value) in (bool, int, float, str, bytes)
