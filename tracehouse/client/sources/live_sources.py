"""The source that goes with a live object: its modules, the module that stands for `__main__`, and the pickles."""

import json
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import Any

from tracehouse.client.errors import NotSendable
from tracehouse.client.sources.definitions import changed_globals, changed_names
from tracehouse.client.sources.main_module import MainModule
from tracehouse.client.sources.pickling import Pickled, Placeholder, pickle_object
from tracehouse.client.sources.project_files import ProjectFiles, is_installed

_FOLDER = "live_model_pickles"
_VALUE_MAX_CHARACTERS = 60
_MODEL = "the-model"

# The module that opens the pickles where the source is loaded. The weights are loaded into the placeholders afterwards.
_OPENER = '''"""Opens the model as tracehouse.Client sent it. It runs where submitted code runs, in the jail."""

import io as _io
import pickle as _pickle
import sys as _sys
from pathlib import Path as _Path

import torch as _torch
{imports}
_PYTHON = {python}
# Read at once: what the model reads when it is called would count as one of its inputs.
_PICKLES = {{file.stem: file.read_bytes() for file in (_Path(__file__).parent / "{folder}").iterdir()}}


class _Unpickler(_pickle.Unpickler):
    def __init__(self, file):
        super().__init__(file)
        self._tensors = {{}}
        self._storages = {{}}

    def persistent_load(self, placeholder):
        number, *about = placeholder
        if number not in self._tensors:
            self._tensors[number] = self._make_tensor(*about)
        return self._tensors[number]

    def _make_tensor(self, size, stride, dtype, requires_grad, is_parameter, attributes, storage):
        dtype = getattr(_torch, dtype)
        if storage is None:
            tensor = _torch.empty_strided(size, stride, dtype=dtype, device="cpu")
        else:
            shared, byte_size, offset = storage
            if shared not in self._storages:
                self._storages[shared] = _torch.empty(byte_size, dtype=_torch.uint8, device="cpu").untyped_storage()
            tensor = _torch.empty(0, dtype=dtype, device="cpu").set_(self._storages[shared], offset, size, stride)
        if is_parameter:
            tensor = _torch.nn.Parameter(tensor, requires_grad=requires_grad)
        elif requires_grad:
            tensor.requires_grad_()
        tensor.__dict__.update(attributes)
        return tensor


def load_value(name):
    """Open one pickle of this source."""
    if _PYTHON is not None and _sys.version_info[:2] != _PYTHON:
        raise RuntimeError(
            "some of the code was sent as the bytecode of Python %d.%d, and this is Python %d.%d: "
            % (*_PYTHON, *_sys.version_info[:2])
            + "give lambdas and functions inside of functions a name at the top of a module"
        )
    return _Unpickler(_io.BytesIO(_PICKLES[name])).load()


def {name}():
    return load_value("{model}")
'''


@dataclass
class LiveSources:
    """Gathers what a live object needs while it is pickled, and gives names to it.

    `imports` are modules that are imported first, for what that does. Raises NotSendable if there is no such module.
    """

    imports: Sequence[str] = ()
    project: ProjectFiles = field(default_factory=ProjectFiles)
    pickles: dict[str, Pickled] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.main = MainModule(self.project)
        for module in self.imports:
            if not is_installed(module):
                raise NotSendable(f"imports names {module!r}, and there is no such module here")
            self.project.add(module)
        self._touched_main = False
        self._checked: set[int] = set()
        self._notes: dict[str, None] = {}
        self._after: set[str] = set()  # values that need the definitions of the main module

    def reference(self, value: Any) -> tuple[str, str] | None:
        """Return the module and the name of what the main module defines; None for everything else."""
        if isinstance(value, ModuleType):
            return (self.main.name, "") if value is sys.modules["__main__"] else None
        if (decorated := self.main.find_decorated(value)) is not None:
            self._touched_main = True
            return self.main.name, decorated
        if not isinstance(value, type | FunctionType):
            return None
        if value.__module__ != "__main__":
            self._check_is_current(value)
            return None
        if "<" in value.__qualname__ or not self.main.define(value):
            return None
        self._touched_main = True
        return self.main.name, value.__qualname__

    def needs(self, module: str) -> None:
        self.project.add(module)

    def pickle_model(self, model: Any, placeholders: Mapping[int, Placeholder]) -> None:
        """Pickle the model, and the values that its definitions take from `__main__`. Raises what pickling raises."""
        self.pickles[_MODEL] = pickle_object(model, self, placeholders)
        while waiting := [name for name in self.main.values if name not in self.pickles]:
            for name in waiting:
                self._pickle_value(name)

    def files(self, entry: str) -> dict[str, bytes]:
        """Return the files of the source; `entry` is the name under which it gives the model."""
        has_code = any(pickled.has_code for pickled in self.pickles.values())
        text = _OPENER.format(
            imports="".join(f"import {module}\n" for module in self.imports),
            python=repr(sys.version_info[:2]) if has_code else None,
            folder=_FOLDER,
            name=entry,
            model=_MODEL,
        )
        files = {**self.project.files, f"{self.opener}.py": text.encode()}
        files |= {f"{_FOLDER}/{name}.pickle": pickled.data for name, pickled in self.pickles.items()}
        if self.main.is_needed:
            files[self._main_path] = self._main_text().encode()
        return files

    @property
    def opener(self) -> str:
        """The name of the module that opens the model."""
        is_taken = self.project.has("live_model") or self.main.name == "live_model"
        return "tracehouse_live_model" if is_taken else "live_model"

    @property
    def notes(self) -> list[str]:
        """What was left behind or replaced."""
        return [
            *self.project.notes,
            *self.main.notes,
            *self._notes_of_globals(),
            *self._notes,
            *dict.fromkeys(note for pickled in self.pickles.values() for note in pickled.replaced),
            *dict.fromkeys(note for pickled in self.pickles.values() for note in map(_by_value, pickled.by_value)),
        ]

    def _notes_of_globals(self) -> Iterator[str]:
        for name, module in [*sys.modules.items()]:
            if self.project.has(name):
                for value, there, here in changed_globals(module, self.project.text_of(name)):
                    yield f"{name}.{value} is {_shorten(here)} here, and {_shorten(there)} in its file: that was sent"

    def _pickle_value(self, name: str) -> None:
        self._touched_main = False
        try:
            self.pickles[name] = pickle_object(self.main.values[name], self, {})
        except Exception as error:  # noqa: BLE001 - a value of any kind, with code of its own
            kind = type(self.main.values.pop(name)).__name__
            self._notes[
                f"{name}, a {kind} that the code names, was left out, because it cannot be pickled: {error}"
            ] = None
            return
        if self._touched_main:
            self._after.add(name)

    def _main_text(self) -> str:
        def statement(name: str) -> str:
            return f"{name} = load_value({json.dumps(name)})"

        load = [f"from {self.opener} import load_value"] if self.main.values else []
        before = [statement(name) for name in self.main.values if name not in self._after]
        return self.main.write([*load, *before], [statement(name) for name in self.main.values if name in self._after])

    @property
    def _main_path(self) -> str:
        if self.project.has(self.main.name):
            raise NotSendable(
                f"{self.main.name}.py is run, and imported as a module too, so that its classes exist twice. Put what "
                "the model needs into a module of its own"
            )
        return self.main.path

    def _check_is_current(self, value: type | FunctionType) -> None:
        """Say it if a file of the project was changed since it was imported."""
        if id(value) in self._checked or not self.project.add(value.__module__):
            return
        self._checked.add(id(value))
        if "<" in value.__qualname__:
            return
        for name in changed_names(value, self.project.text_of(value.__module__)):
            self._notes[
                f"{name} is another one here than in the file of {value.__module__}, and the file was sent: import it "
                "again (in a notebook, restart the kernel), so that both are the same"
            ] = None


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _VALUE_MAX_CHARACTERS else f"{text[:_VALUE_MAX_CHARACTERS]}…"


def _by_value(name: str) -> str:
    return (
        f"{name} goes as the bytecode of Python {platform.python_version_tuple()[0]}."
        f"{platform.python_version_tuple()[1]}, and what is found in it has no line: define it with a name, at the top "
        "of a module"
    )
