"""An environment: packages that the operator installed beside the service's own, for submitted code to import."""

import platform
from datetime import datetime

from pydantic import Field

from tracehouse.artifact.environment import EnvironmentRef
from tracehouse.frozen import Frozen


class EnvironmentPackage(Frozen):
    """A package of an environment."""

    name: str
    version: str
    modules: list[str] = Field(description="The names under which it is imported.")


class Environment(EnvironmentRef):
    """What is in an environment. It adds packages to the service's own, and replaces none of them."""

    python: str = Field(description="The Python that it was made for, as `3.11`.")
    torch: str = Field(description="The torch that it was made for.")
    created_at: datetime
    packages: list[EnvironmentPackage] = Field(description="What it adds to the service's own packages.")

    @property
    def ref(self) -> EnvironmentRef:
        return EnvironmentRef(name=self.name, digest=self.digest)

    def package_of(self, module: str) -> EnvironmentPackage | None:
        """Return the package that an import of this module finds here; None if there is none."""
        top = module.partition(".")[0]
        return next((package for package in self.packages if top in package.modules), None)


def python_release() -> str:
    """Return the release of Python that packages are built for, as `3.11`."""
    return ".".join(platform.python_version_tuple()[:2])
