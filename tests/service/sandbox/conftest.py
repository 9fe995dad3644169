import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from service.sandbox.limits import Limits
from service.sandbox.tiers import Tier
from service.sandbox.zygote import Zygote
from tests.conftest import PATIENCE_S, offered_tiers

HERE = Path(__file__).parent
PROGRAMS = [
    "programs.devours",
    "programs.echo",
    "programs.ends",
    "programs.lies",
    "programs.looks",
    "programs.multiplies",
    "programs.spins",
]

sys.path.append(str(HERE))  # the attacks have the same names here as in their zygote


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test, or a fixture, that asks for an `offered_tier` has each in turn."""
    if "offered_tier" in metafunc.fixturenames:
        metafunc.parametrize("offered_tier", offered_tiers(), ids=str, scope="module")


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    with Zygote(PROGRAMS, tier=Tier.NONE, path=[HERE]) as zygote:
        yield zygote


@pytest.fixture
def new_zygote() -> Iterator[Zygote]:
    """One that a test may kill."""
    with Zygote(PROGRAMS, tier=Tier.NONE, path=[HERE]) as zygote:
        yield zygote


@pytest.fixture
def limits() -> Limits:
    return Limits(address_space_mib=1024, cpu_s=30, file_size_mib=1)


@pytest.fixture
def until() -> float:
    """When a test that waits gives up."""
    return time.monotonic() + PATIENCE_S


@pytest.fixture
def gone(until: float) -> Callable[[int], bool]:
    """Whether a process, of whichever parent, ends within the test's time."""

    def gone(pid: int) -> bool:
        try:
            process = os.pidfd_open(pid)
        except ProcessLookupError:
            return True
        try:
            return bool(select.select([process], [], [], until - time.monotonic())[0])
        finally:
            os.close(process)

    return gone
