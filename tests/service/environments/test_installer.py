"""Installing: real pip on wheels in a folder."""

import importlib.util
import sys
from importlib import metadata
from pathlib import Path

import pytest

from service.domain.environment import Environment, python_release
from service.environments.environments import Environments
from service.environments.installer import install
from service.environments.pip import InstallationFailed
from tests.wheels import write_requirements, write_wheel


@pytest.fixture
def environments(tmp_path: Path) -> Environments:
    return Environments(tmp_path / "environments")


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    folder = tmp_path / "wheels"
    folder.mkdir()
    write_wheel(folder, "scales_for_tests", "1.0", "scales", "FACTOR = 2")
    write_wheel(folder, "scales_for_tests", "2.0", "scales", "FACTOR = 3")
    write_wheel(folder, "wants_scales", "0.1", "wants", "import scales", "scales_for_tests<2", "torch")
    return folder


def make(environments: Environments, wheels: Path, *lines: str) -> Environment:
    return install(environments, "vision", write_requirements(wheels, *lines), lambda line: None)


def versions(environment: Environment) -> dict[str, str]:
    return {package.name: package.version for package in environment.packages}


def test_only_what_the_service_does_not_have_is_installed(environments: Environments, wheels: Path) -> None:
    made = make(environments, wheels, "wants_scales", "torch")

    assert versions(made) == {"scales_for_tests": "1.0", "wants_scales": "0.1"}
    folder = environments.folder_of(made)
    assert (folder / "site-packages" / "scales.py").read_text() == "FACTOR = 2"
    assert not (folder / "site-packages" / "torch").exists()
    assert (folder / "lock.txt").read_text() == "scales_for_tests==1.0\nwants_scales==0.1\n"
    kept = folder / "requirements.txt"
    assert kept.read_text() == (wheels / "requirements.txt").read_text()
    assert kept.stat().st_mode & 0o077 == 0, "it may name an index with a password"


def test_an_environment_says_what_it_was_made_for_and_how_its_packages_are_imported(
    environments: Environments, wheels: Path
) -> None:
    made = make(environments, wheels, "scales_for_tests")

    assert made.torch == metadata.version("torch")
    assert [package.modules for package in made.packages] == [["scales"]]
    assert environments.find("vision") == made


def test_the_same_content_has_the_same_digest_and_other_content_another(
    environments: Environments, wheels: Path
) -> None:
    made = make(environments, wheels, "scales_for_tests==1.0")
    again = make(environments, wheels, "scales_for_tests==1.0")
    write_wheel(wheels, "scales_for_tests", "1.0", "scales", "FACTOR = 5")
    changed = make(environments, wheels, "scales_for_tests==1.0")

    assert again.digest == made.digest
    assert changed.digest != made.digest
    assert versions(changed) == versions(made)
    assert not environments.folder_of(made).exists()


def test_a_package_of_the_service_is_not_replaced(environments: Environments, wheels: Path) -> None:
    made = make(environments, wheels, "scales_for_tests")

    with pytest.raises(InstallationFailed, match=r"would replace packages of the service: torch "):
        make(environments, wheels, "torch<2")
    assert environments.find("vision") == made


def test_a_requirement_that_is_not_found_is_named_in_pips_words(environments: Environments, wheels: Path) -> None:
    with pytest.raises(InstallationFailed, match="no_such_package"):
        make(environments, wheels, "no_such_package")

    assert environments.list() == []
    assert list(environments.directory.iterdir()) == []


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where Python itself is, for a service without a pip beside it, as in its container."""
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pip" else find_spec(name))
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path / "base"))
    (tmp_path / "base" / "bin").mkdir(parents=True)
    return tmp_path / "base" / "bin" / f"python{python_release()}"


def test_without_a_pip_beside_the_service_that_of_python_is_used(
    environments: Environments, wheels: Path, base: Path
) -> None:
    base.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    base.chmod(0o755)

    assert versions(make(environments, wheels, "scales_for_tests")) == {"scales_for_tests": "2.0"}


def test_without_any_pip_it_is_said(environments: Environments, wheels: Path, base: Path) -> None:
    with pytest.raises(InstallationFailed, match="There is no pip here"):
        make(environments, wheels, "scales_for_tests")
