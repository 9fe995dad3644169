"""The installer: it makes an environment from a file of requirements, with pip.

pip installs into an empty virtual environment that sees the service's own packages, each constrained to its version: so
it installs what is missing, and nothing that would replace a package of the service. Only the packages are kept.
"""

import hashlib
import json
import shutil
import sys
import venv
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib import metadata
from importlib.metadata import Distribution
from pathlib import Path, PurePath

from service.domain.environment import Environment, EnvironmentPackage, python_release
from service.environments.environments import PACKAGES, Environments
from service.environments.pip import InstallationFailed, run_pip

# Chosen: `GET /environments` lists all of them.
ENVIRONMENTS_MAX = 100
# What pip writes about the installation itself, in every package's metadata.
_ABOUT_INSTALLATION = {"RECORD", "direct_url.json"}


def install(environments: Environments, name: str, requirements: Path, report: Callable[[str], object]) -> Environment:
    """Make the environment of this name, or make it anew. `report` is called with each line that pip prints.

    Raises InstallationFailed; what had the name before stays then.
    """
    with environments.change(), environments.stage() as staged:
        others = [each for each in environments.list() if each.name != name]
        if len(others) >= ENVIRONMENTS_MAX:
            raise InstallationFailed(f"There are {len(others)} environments, and no more are allowed: delete one.")
        packages = _install_packages(staged, requirements, report)
        environment = Environment(
            name=name,
            digest=_digest(staged / PACKAGES),
            python=python_release(),
            torch=metadata.version("torch"),
            created_at=datetime.now(UTC),
            packages=packages,
        )
        (staged / "lock.txt").write_text("".join(f"{each.name}=={each.version}\n" for each in packages))
        _keep_requirements(staged / "requirements.txt", requirements)
        environments.add(staged, environment)
        return environment


def _keep_requirements(file: Path, requirements: Path) -> None:
    """Keep the file as it was given. Only its owner may read it, for it may name an index with a password."""
    file.touch(mode=0o600)
    file.write_bytes(requirements.read_bytes())


def _install_packages(staged: Path, requirements: Path, report: Callable[[str], object]) -> list[EnvironmentPackage]:
    """Install the packages into the staged folder, and return what they are."""
    building = staged / "building"
    venv.create(building, with_pip=False)
    installed = Path(building, "lib", f"python{python_release()}", PACKAGES)
    service_packages = installed / "service.pth"
    service_packages.write_text("".join(f"{folder}\n" for folder in _service_folders()))
    constraints = building / "constraints.txt"
    constraints.write_text("".join(f"{name}=={version}\n" for name, version in sorted(_service_versions().items())))
    run_pip(building / "bin" / "python", requirements, constraints, report)
    service_packages.unlink()
    if any(installed.glob("__editable__*")):
        raise InstallationFailed("Submitted code could not read an editable package where it lies: leave out -e.")
    installed.rename(staged / PACKAGES)
    shutil.rmtree(building)
    return sorted(_packages_in(staged / PACKAGES), key=lambda package: package.name.lower())


def _service_folders() -> list[str]:
    """Return the folders of the service's own packages."""
    return [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]


def _service_versions() -> dict[str, str]:
    return {each.name: each.version for each in metadata.distributions(path=_service_folders()) if each.name}


def _packages_in(folder: Path) -> Iterator[EnvironmentPackage]:
    for each in metadata.distributions(path=[str(folder)]):
        yield EnvironmentPackage(name=each.name, version=each.version, modules=sorted(_modules_of(each)))


def _modules_of(package: Distribution) -> set[str]:
    """Return the names under which the package is imported: its top-level folders and modules."""
    files = [PurePath(file) for file in package.files or []]
    folders = {file.parts[0] for file in files if len(file.parts) > 1}
    modules = {file.name.partition(".")[0] for file in files if len(file.parts) == 1 and file.suffix in (".py", ".so")}
    return {name for name in folders | modules if name.isidentifier() and name != "__pycache__"}


def _digest(packages: Path) -> str:
    """Return a digest of what code finds here: every file but bytecode, and what it was built for."""
    files = {
        str(path.relative_to(packages)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in packages.rglob("*")
        if path.is_file() and path.suffix != ".pyc" and path.name not in _ABOUT_INSTALLATION
    }
    content = {"python": python_release(), "torch": metadata.version("torch"), "files": files}
    return "sha256:" + hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
