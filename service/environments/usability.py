"""Usability: whether submitted code can import what is in an environment, as the service runs now."""

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from service.domain.environment import Environment, python_release
from service.environments.environments import Environments
from service.sandbox.tiers import Tier

_OTHERS_ENTER = 0o001


def fault_of(environment: Environment, environments: Environments, tier: Tier) -> str | None:
    """Return why the environment cannot be used here, and what to do; None if it can."""
    return next(_faults(environment, environments, tier), None)


def _faults(environment: Environment, environments: Environments, tier: Tier) -> Iterator[str]:
    here, made_for = (python_release(), version("torch")), (environment.python, environment.torch)
    if here != made_for:
        yield (
            f"it was made for Python {made_for[0]} and torch {made_for[1]}, and here are Python {here[0]} and torch "
            f"{here[1]}: make it again with tracehouse environments create {environment.name}"
        )
    if not tier.reads_packages:
        yield f"in the sandbox's tier {tier.value} submitted code reads no file, so it can import no environment"
    if tier is Tier.UIDS and (closed := list(_closed_to_others(environments.directory))):
        yield (
            f"in the sandbox's tier {tier.value} submitted code runs as another user, who may not enter "
            f"{' and '.join(closed)}: chmod o+x lets it"
        )


def _closed_to_others(directory: Path) -> Iterator[str]:
    """Yield the directories on the way that other users cannot enter."""
    for each in (directory, *directory.parents):
        if not each.stat().st_mode & _OTHERS_ENTER:
            yield str(each)
