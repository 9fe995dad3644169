"""Modules of a source that are called as packages of the program: each side finds its own."""

import builtins
import importlib
import pickle
import re
import subprocess
import sys
import types
import typing
from collections.abc import Callable
from importlib.metadata import distribution
from typing import Any

import pytest
from packaging.requirements import Requirement

import service.log
import tracehouse.byte_units
from tracehouse.eager.shadowed_packages import PROGRAM
from tracehouse.eager.source import Source

Install = Callable[[Source], Source]
# What stays Python's, torch's and numpy's is refused (test_source).
NAMES = sorted(PROGRAM - {"torch", "numpy"})


def code_of(package: str) -> dict[str, Any]:
    """The globals of code that this package could have."""
    return {"__name__": f"{package}.some.module", "__package__": f"{package}.some", "__builtins__": builtins}


def imported_by(package: str, statement: str, name: str) -> Any:
    """What the statement gives to code of the package."""
    there = code_of(package)
    exec(statement, there)
    return there[name]


@pytest.mark.parametrize("name", NAMES)
def test_a_module_of_the_source_wins_in_the_source(installed: Install, name: str) -> None:
    files = {
        f"{name}/__init__.py": "",
        f"{name}/errors.py": "MINE = True\n",
        "net.py": f"from {name}.errors import MINE",
    }
    source = installed(Source.from_text(files))

    assert source.import_module("net", 0).MINE


def test_the_program_goes_on_importing_its_own(installed: Install) -> None:
    source = installed(Source.from_text({"tracehouse/__init__.py": "MINE = True\n", "net.py": "import tracehouse\n"}))
    theirs = source.import_module("net", 0).tracehouse

    assert theirs.MINE
    assert imported_by("tracehouse", "import tracehouse.byte_units as it", "it") is tracehouse.byte_units
    assert imported_by("workers", "from tracehouse.byte_units import MIB", "MIB") == 2**20
    assert imported_by("timm", "import tracehouse", "tracehouse") is theirs
    assert sys.modules["tracehouse"] is theirs


def test_the_program_imports_what_it_never_imported_before(installed: Install) -> None:
    loaded = [name for name in sys.modules if name.partition(".")[0] == "texttable"]
    for name in loaded:
        del sys.modules[name]
    source = installed(Source.from_text({"texttable.py": "MINE = True\n", "net.py": "import texttable\n"}))

    assert not hasattr(imported_by("torch", "import texttable", "texttable"), "MINE")
    assert source.import_module("net", 0).texttable.MINE
    assert not hasattr(imported_by("torch", "from texttable import Texttable", "Texttable"), "MINE")
    assert importlib.import_module("texttable").MINE


def test_relative_imports_of_the_program_stay_in_its_packages(installed: Install) -> None:
    source = installed(
        Source.from_text({"jinja2/__init__.py": "", "jinja2/utils.py": "", "net.py": "import jinja2.utils"})
    )
    source.import_module("net", 0)
    there = {"__name__": "jinja2.somewhere", "__package__": "jinja2", "__builtins__": builtins}

    exec("from .utils import markupsafe", there)
    assert there["markupsafe"].__name__ == "markupsafe"


def test_torch_finds_what_only_the_source_has(installed: Install) -> None:
    source = installed(Source.from_text({"service/net.py": "class Net: pass\n", "service/__init__.py": ""}))
    net = source.import_module("service.net", 0)

    assert imported_by("torch", "import service.net as found", "found") is net


def test_what_looks_a_class_up_by_its_module_finds_the_sources(installed: Install) -> None:
    text = "from dataclasses import dataclass\n@dataclass\nclass Size:\n    of: 'Size | None' = None\n"
    size = installed(Source.from_text({"service/log.py": text, "service/__init__.py": ""})).import_module(
        "service.log", 0
    )

    assert pickle.loads(pickle.dumps(size.Size())) == size.Size()
    assert typing.get_type_hints(size.Size) == {"of": size.Size | types.NoneType}


def test_everything_is_as_before_when_the_source_is_uninstalled() -> None:
    before, python_import = dict(sys.modules), builtins.__import__
    source = Source.from_text({"service/__init__.py": "", "service/log.py": "MINE = True\n", "igraph.py": ""})
    source.install()
    assert source.import_module("service.log", 0).MINE
    source.uninstall()

    assert {name: module for name, module in sys.modules.items() if name in before} == before
    assert importlib.import_module("service.log") is service.log
    assert builtins.__import__ is python_import


def test_nothing_is_replaced_for_a_source_that_shadows_nothing(installed: Install) -> None:
    python_import = builtins.__import__
    installed(Source.from_text({"a_name_of_its_own.py": ""}))

    assert builtins.__import__ is python_import


def test_whatever_torch_and_a_child_of_ours_require_keeps_its_imports() -> None:
    required: set[str] = set()
    waiting = ["torch", "numpy", "orjson", "pydantic", "safetensors", "fsspec"]
    while waiting:
        name = re.sub(r"[-.]", "_", waiting.pop()).lower()
        if name not in required and not name.startswith(("nvidia", "cuda")):
            required.add(name)
            requirements = [Requirement(text) for text in distribution(name).requires or ()]
            waiting += [one.name for one in requirements if one.marker is None or one.marker.evaluate({"extra": ""})]

    assert required <= PROGRAM


def test_the_messages_of_a_program_are_complete_before_a_source_is_there() -> None:
    """What pydantic completes at its first use, it would look for in `sys.modules`."""
    code = """
import sys, pydantic, workers.programs.reference, workers.programs.tracer
packages = ("tracehouse", "service", "workers")
ours = [module for name, module in sys.modules.items() if name.partition(".")[0] in packages]
kinds = [kind for module in ours for kind in vars(module).values() if isinstance(kind, type)]
messages = [kind for kind in kinds if issubclass(kind, pydantic.BaseModel) and kind is not pydantic.BaseModel]
print(len(messages) > 50, [kind for kind in messages if not kind.__pydantic_complete__])
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=100).stdout

    assert said.split(maxsplit=1) == ["True", "[]\n"]
