"""Environments: folders of packages that the operator installed, each under a name.

    NAME/environment.json           which digest is the present one, and what is in it
    NAME/<digest>/site-packages/    the packages; beside them requirements.txt and lock.txt

A folder of a digest never changes. Who uses one locks it, and only unlocked ones are removed.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from service.domain.environment import Environment
from service.domain.errors import EnvironmentGone, EnvironmentNotFound
from tracehouse.artifact.environment import EnvironmentRef
from tracehouse.spec.environment_name import EnvironmentName

PACKAGES = "site-packages"
_DOCUMENT = "environment.json"
_MAKING = ".making-"
_NAME: TypeAdapter[str] = TypeAdapter(EnvironmentName)


class Environments:
    """The environments in a directory. Any process may read them while another one changes them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory.absolute()

    def prepare(self) -> None:
        """Make the directory. Other users may read what is in it, because jailed code may run as one of them."""
        self.directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        self.directory.chmod(0o755)

    def list(self) -> Sequence[Environment]:
        """Return every environment, in the order of their names."""
        if not self.directory.is_dir():
            return []
        named = (self._read(path.name) for path in sorted(self.directory.iterdir()))
        return [environment for environment in named if environment is not None]

    def find(self, name: str) -> Environment:
        """Raises EnvironmentNotFound."""
        environment = self._read(name)
        if environment is None:
            raise EnvironmentNotFound("there is no environment of this name", name=name[:80])
        return environment

    def folder_of(self, environment: EnvironmentRef) -> Path:
        """Return the folder of one version of an environment, which may be gone."""
        return self.directory / environment.name / environment.digest.removeprefix("sha256:")

    def packages_of(self, environment: EnvironmentRef | None) -> Sequence[str]:
        """Return the folders that code in this environment imports from, besides the service's own packages."""
        return [] if environment is None else [str(self.folder_of(environment) / PACKAGES)]

    @contextmanager
    def hold(self, environment: EnvironmentRef | None) -> Iterator[None]:
        """Keep the environment's files while the block runs. Raises EnvironmentGone."""
        if environment is None:
            yield
            return
        folder = self.folder_of(environment)
        with _locked(folder, fcntl.LOCK_SH) as locked:
            # It may have been removed while this waited for the lock.
            if not locked or not (folder / PACKAGES).is_dir():
                raise EnvironmentGone(
                    f"environment {environment.name} is not what it was", environment=environment.name
                )
            yield

    @contextmanager
    def change(self) -> Iterator[None]:
        """Let only one process at a time add and delete. What a killed one left half made is removed."""
        self.prepare()
        with _locked(self.directory, fcntl.LOCK_EX):
            for path in self.directory.glob(f"{_MAKING}*"):
                shutil.rmtree(path)
            yield

    @contextmanager
    def stage(self) -> Iterator[Path]:
        """Give a new folder for `add`, which is removed unless it was added."""
        folder = Path(tempfile.mkdtemp(prefix=_MAKING, dir=self.directory))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def add(self, staged: Path, environment: Environment) -> None:
        """Make the staged folder the environment of its name, in place of what had that name."""
        folder = self.folder_of(environment)
        folder.parent.mkdir(mode=0o755, exist_ok=True)
        if not folder.exists():
            staged.chmod(0o755)
            staged.rename(folder)
        document = folder.parent / f"{_DOCUMENT}.new"
        document.write_text(environment.model_dump_json(indent=2))
        document.rename(folder.parent / _DOCUMENT)
        self._remove_unused(environment.name)

    def delete(self, name: str) -> bool:
        """Delete the environment; False if a trace uses it, and its files stay until a later change.

        Raises EnvironmentNotFound.
        """
        with self.change():
            (self.directory / self.find(name).name / _DOCUMENT).unlink()
            return self._remove_unused(name)

    def _read(self, name: str) -> Environment | None:
        try:
            _NAME.validate_python(name)
            return Environment.model_validate_json((self.directory / name / _DOCUMENT).read_bytes())
        except (ValidationError, FileNotFoundError, NotADirectoryError):
            return None

    def _remove_unused(self, name: str) -> bool:
        """Remove the folders of the name that are neither present nor in use; False if one in use stays."""
        home, present = self.directory / name, self._read(name)
        kept = None if present is None else self.folder_of(present)
        old = [path for path in home.iterdir() if path.is_dir() and path != kept]
        removed = [self._remove(folder) for folder in old]
        if present is None and all(removed):
            shutil.rmtree(home)
        return all(removed)

    def _remove(self, folder: Path) -> bool:
        with _locked(folder, fcntl.LOCK_EX | fcntl.LOCK_NB) as locked:
            if locked:
                # Moved first: whoever waits for the lock must not find half of it.
                with self.stage() as doomed:
                    folder.rename(doomed / folder.name)
            return locked


@contextmanager
def _locked(folder: Path, how: int) -> Iterator[bool]:
    """Lock a folder; give False if it does not exist, or if it is locked and `how` says not to wait."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield False
        return
    try:
        try:
            fcntl.flock(descriptor, how)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)
