"""Installed packages: read by every process of the service, so that whoever writes there runs in all of them."""

import importlib
import os
import sys
import sysconfig
from pathlib import Path
from typing import Any

from attacks import machine
from attacks.attack import attack
from attacks.judges import changed, made
from attacks.world import project

NAME = "tracehouse-{word}.pth"


@attack(changed)
def adds_a_file_that_every_Python_runs_at_its_start(world: Any) -> Any:
    Path(world.packages, NAME.format(word=world.word)).write_text("import os\n")


@attack(changed)
def overwrites_an_installed_module(world: Any) -> Any:
    Path(world.packages, "installed_package.py").write_text("answer = 41\n")


@attack(changed)
def appends_to_an_installed_module(world: Any) -> Any:
    with open(Path(world.packages, "installed_package.py"), "a") as module:
        module.write("answer = 41\n")


@attack(changed)
def deletes_an_installed_module(world: Any) -> Any:
    Path(world.packages, "installed_package.py").unlink()


@attack(changed)
def puts_a_package_before_an_installed_module(world: Any) -> Any:
    Path(world.packages, "installed_package").mkdir()


@attack(changed)
def replaces_an_installed_module_s_bytecode(world: Any) -> Any:
    cache = Path(world.packages, "__pycache__")
    cache.mkdir()
    (cache / f"installed_package.{sys.implementation.cache_tag}.pyc").write_bytes(b"was here")


@attack(changed)
def writes_bytecode_by_importing(world: Any) -> Any:
    sys.dont_write_bytecode = False
    sys.path.append(world.packages)
    importlib.import_module("installed_package")


@attack(changed)
def makes_an_installed_module_executable(world: Any) -> Any:
    os.chmod(Path(world.packages, "installed_package.py"), 0o4777)


@attack(made("purelib", NAME), impossible_here=machine.writable(sysconfig.get_path("purelib")))
def writes_among_the_service_s_own_packages(world: Any) -> Any:
    Path(world.purelib, NAME.format(word=world.word)).write_text("# was here\n")


@attack(made("stdlib", NAME), impossible_here=machine.writable(sysconfig.get_path("stdlib")))
def writes_into_the_standard_library(world: Any) -> Any:
    Path(world.stdlib, NAME.format(word=world.word)).write_text("# was here\n")


@attack(made("scripts", NAME), impossible_here=machine.writable(sysconfig.get_path("scripts")))
def writes_among_the_commands(world: Any) -> Any:
    Path(world.scripts, NAME.format(word=world.word)).write_text("# was here\n")


@attack(made("project", NAME), impossible_here=machine.writable(project()))
def writes_beside_the_service_s_package(world: Any) -> Any:
    Path(world.project, NAME.format(word=world.word)).write_text("# was here\n")
