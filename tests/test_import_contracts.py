"""Each import contract of pyproject.toml catches the import that it forbids, planted in a copy of the packages."""

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")
LINTER = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
CONTRACTS = [contract["name"] for contract in LINTER["contracts"]]
FLOORS = [contract for contract in LINTER["contracts"] if contract.get("exhaustive")]

# By contract: who imports what.
PLANTS = {
    "Three roots: the workers stand on the service, the service on the library": {"tracehouse.contract": "service.log"},
    "Floors of the service": {"service.domain": "service.storage"},
    "Floors of the library": {"tracehouse.contract": "tracehouse.artifact"},
    "Floors of the workers": {"workers.processes": "workers.verification"},
    "Only the wiring knows the workers": {"service.engine": "workers.worker"},
    "Workers stand on the lower floors": {"workers.attempt": "service.serving"},
    "Only child programs load torch, and only they open what was submitted": {"tracehouse.tensors": "torch"},
    "Parents and programs are apart": {"workers.processes": "workers.programs"},
    "Child programs hold no database, no settings, no HTTP, no children": {"workers.programs": "service.storage"},
    "What is forked knows nothing of what forks": {"service.sandbox.fork_server": "subprocess"},
    "The jail knows no word of tracing": {"service.sandbox": "service.protocol"},
    "What answers inference does not load what traces": {"workers.programs.runner": "tracehouse.eager"},
    "A client loads torch and opens archives only to send a source": {"tracehouse.client.trace": "torch"},
    "FastAPI stays in the API": {"service.storage": "fastapi"},
    "SQLAlchemy stays in storage": {"service.api": "sqlalchemy"},
    "Settings are read where a process starts": {"service.api": "service.settings"},
    "No cycles": {"service.domain.first": "service.domain.second", "service.domain.second": "service.domain.first"},
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the packages with their contracts."""
    tree = tmp_path_factory.mktemp("tree")
    shutil.copy(ROOT / "pyproject.toml", tree)
    for package in LINTER["root_packages"]:
        shutil.copytree(ROOT / package, tree / package, ignore=shutil.ignore_patterns("__pycache__"))
    return tree


def test_the_packages_keep_every_contract(tree: Path) -> None:
    assert find_broken(tree) == set()


@pytest.mark.parametrize("contract", CONTRACTS)
def test_a_contract_catches_the_import_that_it_forbids(tree: Path, contract: str) -> None:
    assert contract in PLANTS, "plant an import that breaks it"
    with planted(tree, PLANTS[contract]):
        assert contract in find_broken(tree)


@pytest.mark.parametrize("floors", FLOORS, ids=lambda floors: floors["name"])
def test_a_new_module_must_choose_its_floor(tree: Path, floors: dict[str, list[str]]) -> None:
    [package] = floors["containers"]
    with planted(tree, {f"{package}.new": "json"}):
        assert find_broken(tree) == {floors["name"]}


@contextmanager
def planted(tree: Path, imports: dict[str, str]) -> Iterator[None]:
    """Let each of these modules import another; afterwards the tree is as it was."""
    before = {path: path.read_text() if path.exists() else None for path in (file_of(tree, name) for name in imports)}
    for path, imported in zip(before, imports.values(), strict=True):
        path.write_text(f"{before[path] or ''}\nimport {imported}\n")
    try:
        yield
    finally:
        for path, text in before.items():
            path.unlink() if text is None else path.write_text(text)


def file_of(tree: Path, module: str) -> Path:
    """A module's file, which need not exist; a new one inside it where it is a package."""
    path = tree / module.replace(".", "/")
    return path / "planted.py" if path.is_dir() else path.with_suffix(".py")


def find_broken(tree: Path) -> set[str]:
    """Run the linter as `make check` does, and return the names of the contracts that are broken."""
    run = subprocess.run([LINT_IMPORTS, "--no-logo"], cwd=tree, capture_output=True, text=True, check=False)
    broken = set(re.findall(r"^(.+) BROKEN", run.stdout, re.MULTILINE))
    assert run.returncode == bool(broken), run.stdout + run.stderr
    return broken
