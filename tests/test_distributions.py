"""What is installed: the library alone, for those who send models to a service, or the service with the library."""

import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution, packages_distributions
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements.lock"
CHECK = """
import sys

sys.modules["torch"] = None
import tracehouse

tracehouse.check(None, [])
"""
# What a client does that sends no live model, where the modules on the command line are missing.
CLIENT = """
import sys

sys.modules.update(dict.fromkeys(sys.argv[1:]))
import tracehouse

with tracehouse.Client("http://127.0.0.1:9") as client:
    try:
        client.infer("net", [1.0])
    except Exception as error:
        print(type(error).__module__, error)
"""


def project(folder: Path) -> dict[str, Any]:
    return dict(tomllib.loads((folder / "pyproject.toml").read_text())["project"])


SERVICE, LIBRARY = project(ROOT), project(ROOT / "tracehouse")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, zipfile.ZipFile]:
    """Both distributions as pip builds them, by their names."""
    folder = tmp_path_factory.mktemp("wheels")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder]
    subprocess.run([*pip, "./tracehouse", "."], cwd=ROOT, check=True)
    return {file.name.split("-")[0]: zipfile.ZipFile(file) for file in folder.iterdir()}


def test_the_library_brings_no_module_of_the_service_and_the_service_none_of_the_library(
    wheels: dict[str, zipfile.ZipFile],
) -> None:
    modules = {name: {file.split("/")[0] for file in wheel.namelist()} for name, wheel in wheels.items()}

    assert modules["tracehouse"] == {"tracehouse", "tracehouse-0.1.0.dist-info"}
    assert modules["tracehouse_service"] == {"service", "workers", "migrations", "tracehouse_service-0.1.0.dist-info"}


def test_each_has_all_of_its_files(wheels: dict[str, zipfile.ZipFile]) -> None:
    packed = {file for wheel in wheels.values() for file in wheel.namelist()}
    ours = {
        file.relative_to(ROOT).as_posix()
        for package in ("tracehouse", "service", "workers", "migrations")
        for file in (ROOT / package).rglob("*")
        if file.is_file() and file.parent.name != "__pycache__"
    }

    assert ours - packed == {"tracehouse/pyproject.toml", "tracehouse/LICENSE"}


def test_the_service_needs_the_library_of_its_own_release() -> None:
    assert f"tracehouse[check]=={LIBRARY['version']}" in SERVICE["dependencies"]
    assert SERVICE["version"] == LIBRARY["version"]
    assert SERVICE["requires-python"] == LIBRARY["requires-python"]


def test_every_locked_package_takes_each_python_that_the_project_takes() -> None:
    """Debian 12 has Python 3.11.2: a package that needs 3.11.5 ends `make test` there before it begins."""
    oldest = next(one.version for one in SpecifierSet(SERVICE["requires-python"]) if one.operator == ">=")
    locked = [Requirement(line.partition("#")[0]).name for line in LOCK.read_text().splitlines() if "==" in line]
    installed = [one for one in map(distribution_if_installed, locked) if one is not None]
    needs = {one.name: one.metadata.get("Requires-Python") or "" for one in installed}

    assert len(installed) > len(locked) / 2
    assert [name for name, takes in needs.items() if f"{oldest}.0" not in SpecifierSet(takes)] == []


def test_the_client_needs_nothing_but_what_the_library_brings() -> None:
    needed = {*names_of_all(LIBRARY["dependencies"])}
    others = {
        module
        for module, owners in packages_distributions().items()
        if needed.isdisjoint(map(canonicalize_name, owners)) and module != "tracehouse"
    }

    ran = subprocess.run([sys.executable, "-c", CLIENT, *others], capture_output=True, text=True, check=False)

    assert "tracehouse.client" in ran.stdout, ran.stderr
    assert needed.isdisjoint({"fastapi", "sqlalchemy", "torch", "uvicorn"})


def test_a_check_without_torch_says_what_to_install() -> None:
    ran = subprocess.run([sys.executable, "-c", CHECK], capture_output=True, text=True, check=False)

    assert ran.stderr.endswith("ModuleNotFoundError: tracehouse.check needs torch: pip install 'tracehouse[check]'\n")


def distribution_if_installed(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:  # of an extra that the tests do without
        return None


def names_of_all(requirements: Iterable[str]) -> Iterator[str]:
    """The distributions that these requirements bring, and what those bring."""
    for requirement in map(Requirement, requirements):
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield canonicalize_name(requirement.name)
            yield from names_of_all(distribution(requirement.name).requires or ())
