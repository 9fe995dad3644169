"""Tests that need a GPU. Where there is none, all of them are skipped, and one line says so."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from service.sandbox.limits import Limits
from service.sandbox.tiers import Tier
from service.sandbox.torch_probe import NoGpu, require_gpu
from service.sandbox.zygote import Zygote

HERE = Path(__file__).parent
# Without a driver's device there is nothing to ask torch for, which takes seconds to load.
DRIVERS = (Path("/dev/nvidiactl"), Path("/dev/dxg"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ours = [item for item in items if item.path.is_relative_to(HERE)]
    why_not = _why_not() if ours else None
    for item in ours:
        item.add_marker(pytest.mark.gpu)
        if why_not is not None:
            item.add_marker(pytest.mark.skip(reason=why_not))


def _why_not() -> str | None:
    if not any(driver.exists() for driver in DRIVERS):
        return "there is no GPU here"
    try:
        require_gpu(Tier.NONE, Limits(address_space_mib=None, cpu_s=60))
    except NoGpu as error:
        return str(error)
    return None


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    """Of the one tier whose children can use CUDA."""
    programs = [
        "workers.programs.tracer",
        "workers.programs.reference",
        "workers.programs.runner",
        "workers.programs.packer",
    ]
    with Zygote(["workers.programs.tracer_warmup", *programs], tier=Tier.NONE) as zygote:
        yield zygote
