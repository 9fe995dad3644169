"""Missing packages: which environments have a package that the submitted code did not find."""

from collections.abc import Iterator

from service.environments.environments import Environments
from tracehouse.artifact.environment import EnvironmentRef
from tracehouse.errors import TraceError


def name_environments(error: TraceError, environments: Environments, used: EnvironmentRef | None) -> TraceError:
    """Return the error; if other environments than the used one have the missing package, its remedy names them."""
    module = error.facts.get("missing_module")
    if not isinstance(module, str):  # the error is what a child says
        return error
    found = list(_find(module, environments, used))
    if found:
        names = [name for name, _ in found]
        has = "; ".join(f"environment {name} has {package}" for name, package in found)
        remedy = f"{has}: send `environment: {names[0]}`, or give --environment {names[0]} to the command"
        error.facts = {**error.facts, "environments": names, "remedy": remedy}
    return error


def _find(module: str, environments: Environments, used: EnvironmentRef | None) -> Iterator[tuple[str, str]]:
    """Yield the name of each such environment, and its package with the version."""
    for environment in environments.list():
        package = environment.package_of(module)
        if package is not None and environment.ref != used:
            yield environment.name, f"{package.name} {package.version}"
