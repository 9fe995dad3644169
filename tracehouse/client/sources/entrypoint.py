"""An entrypoint: how a model is built, with the files that this takes."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any

from tracehouse.client.arguments import bounded_depth, check_finite
from tracehouse.client.errors import NotSendable
from tracehouse.client.sources.live_sources import LiveSources
from tracehouse.client.sources.project_files import is_installed


class Entrypoint:
    """A class or factory, or the name of one as `module:name`, with its arguments. Raises NotSendable."""

    def __init__(
        self,
        made_by: str | Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        imports: Sequence[str] = (),
    ) -> None:
        self._sources = LiveSources(imports)
        self._first = [f"import {module}" for module in imports]
        self._made_by = made_by
        self._entry_file: dict[str, bytes] = {}
        self.init = arguments_as_json(args, kwargs)
        self.entrypoint = self._find()

    def files(self) -> dict[str, bytes]:
        """Return the files by their paths."""
        main, project = self._sources.main, self._sources.project
        values = [*main.values]
        if values:
            raise NotSendable(
                f"{self.entrypoint} takes {values[0]} from around it, which is no plain value. Leave out made_by, to "
                "send the object itself; or put the class into a module"
            )
        written = {main.path: main.write(self._first, []).encode()} if main.is_needed else {}
        return {**project.files, **written, **self._entry_file}

    def build(self) -> Any:
        """Build a model here. Raises NotSendable, also if its own code raises."""
        found: Any = self._find_here(self._made_by) if isinstance(self._made_by, str) else self._made_by
        if not callable(found):
            raise NotSendable(
                f"made_by names {self._shown}, which is a {type(found).__name__}: name a class or a function"
            )
        args, kwargs = self.init["args"], self.init["kwargs"]
        try:
            return found(*args, **kwargs)
        except Exception as error:
            given = "without arguments" if not (args or kwargs) else f"with args={args!r} and kwargs={kwargs!r}"
            raise NotSendable(
                f"made_by={self._shown} cannot be called {given} ({type(error).__name__}: {error}): give what it is "
                "built with, as args=(4, 2) or kwargs={'bias': False}"
            ) from error

    def _find_here(self, named: str) -> Any:
        """Return what the name of an entrypoint stands for. Raises NotSendable."""
        module, _, path = named.partition(":")
        try:
            found: Any = importlib.import_module(module)
        except Exception as error:
            raise NotSendable(
                f"made_by names {self._shown}, and {module} cannot be imported here ({type(error).__name__}: {error})"
            ) from error
        for name in path.split("."):
            if not hasattr(found, name):
                raise NotSendable(
                    f"made_by names {self._shown}, and there is no {name} in it: name a class or a function"
                )
            found = getattr(found, name)
        return found

    @property
    def _shown(self) -> str:
        made_by = self._made_by
        return repr(made_by) if isinstance(made_by, str) else made_by.__qualname__

    @property
    def packages(self) -> list[str]:
        return self._sources.project.packages

    @property
    def notes(self) -> list[str]:
        return self._sources.notes

    def _find(self) -> str:
        """Return the entrypoint's name in the submission, whose files are gathered."""
        made_by = self._made_by
        if isinstance(made_by, str):
            module, colon, name = made_by.partition(":")
            if not colon or not name:
                raise NotSendable(f"{made_by!r} is no entrypoint: write it as module:name, such as net:Net")
            if module == "__main__":
                raise NotSendable(f"{made_by!r} names what this program defines: hand in {name} itself, without quotes")
            return self._find_named(module, name)
        if not isinstance(made_by, type | FunctionType):
            raise NotSendable(f"made_by is a {type(made_by).__name__}: give a class or a function, or its name")
        if made_by.__module__ != "__main__":
            return self._find_named(made_by.__module__, made_by.__qualname__)
        reference = self._sources.reference(made_by)
        if reference is None:
            raise NotSendable(f"there is no source of {made_by.__qualname__}: define it at the top of a file or a cell")
        return ":".join(reference)

    def _find_named(self, module: str, name: str) -> str:
        project = self._sources.project
        if project.add(module) and not self._first:
            return f"{module}:{name}"
        if not is_installed(module):
            raise NotSendable(
                f"there is no module {module!r} here: run this in the folder of the project, or with that in PYTHONPATH"
            )
        # The service looks for an entrypoint in the source alone, and imports nothing before it.
        entry = module.replace(".", "_") + "_entry"
        top = name.partition(".")[0]
        self._entry_file = {f"{entry}.py": "\n".join([*self._first, f"from {module} import {top}\n"]).encode()}
        return f"{entry}:{name}"


def arguments_as_json(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the arguments of an entrypoint as a trace request has them. Raises NotSendable."""
    with bounded_depth("args or kwargs"):
        return {"args": _check_json([*args], "args"), "kwargs": _check_json(dict(kwargs or {}), "kwargs")}


def _check_json(value: Any, path: str) -> Any:
    """Return arguments as JSON has them. Raises NotSendable."""
    match value:
        case None | bool() | int() | float() | str():
            check_finite(path, value, "JSON has no such number: make it inside of what is built")
            return value
        case list() | tuple():
            return [_check_json(item, f"{path}[{place}]") for place, item in enumerate(value)]
        case dict() if all(isinstance(name, str) for name in value):
            return {name: _check_json(item, f"{path}[{name!r}]") for name, item in value.items()}
    raise NotSendable(
        f"{path} is a {type(value).__name__}: the arguments of made_by are numbers, texts, booleans, None, and lists "
        "and dicts of these. Leave out made_by, to send the object itself"
    )
