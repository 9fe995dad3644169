import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from service.sandbox.zygote import Zygote
from service.serving.pool import Pool
from service.serving.runner import Runner
from service.storage.blobs import Blobs
from service.storage.local_blobs import LocalBlobs
from tests.pool_limits import pool_limits
from tracehouse.artifact.manifest import Artifact

StoppedStarts = Callable[[], AbstractContextManager[None]]
HoldStarts = Callable[[int], asyncio.Event]


class Scale(torch.nn.Module):
    def __init__(self, factor: float = 2.0) -> None:
        super().__init__()
        self.factor = torch.nn.Parameter(torch.tensor(factor))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, bool]]:
    """The loop that the service runs on."""
    return "asyncio", {"use_uvloop": True}


@pytest.fixture
def blobs(tmp_path: Path) -> Blobs:
    return LocalBlobs(tmp_path)


@pytest.fixture
def doubles(trace, blobs: Blobs) -> Artifact:
    return trace(blobs, Scale(2.0), torch.ones(2))


@pytest.fixture
def triples(trace, blobs: Blobs) -> Artifact:
    return trace(blobs, Scale(3.0), torch.ones(2))


@pytest.fixture
async def new_pool(torch_zygote: Zygote, blobs: Blobs) -> AsyncIterator[Callable[..., Pool]]:
    """Pools that differ from the usual one in what the test says; closed when it ends."""
    pools = []

    def new_pool(zygote: Zygote = torch_zygote, **changes: Any) -> Pool:
        pools.append(Pool(zygote, blobs, pool_limits(**changes)))
        return pools[-1]

    yield new_pool
    for pool in pools:
        await pool.close(grace_s=0)


@pytest.fixture
def pool(new_pool: Callable[..., Pool]) -> Pool:
    return new_pool()


@pytest.fixture
def stopped_starts(monkeypatch: pytest.MonkeyPatch) -> StoppedStarts:
    """Inside, runners that are forked are stopped at once, so that they do not get ready."""
    fork = Runner._fork

    def fork_and_stop(runner: Runner, *args: Any) -> Any:
        child = fork(runner, *args)
        os.kill(child.pid, signal.SIGSTOP)
        return child

    @contextmanager
    def stopped_starts() -> Iterator[None]:
        with monkeypatch.context() as patched:
            patched.setattr(Runner, "_fork", fork_and_stop)
            yield

    return stopped_starts


@pytest.fixture
def hold_starts(monkeypatch: pytest.MonkeyPatch) -> HoldStarts:
    """Have runners with so many threads start only once the event is set that is returned."""
    start = Runner.start

    def hold_starts(threads: int) -> asyncio.Event:
        may_start = asyncio.Event()

        async def start_late(runner: Runner, *args: Any) -> None:
            if runner._limits.threads == threads:
                await may_start.wait()
            await start(runner, *args)

        monkeypatch.setattr(Runner, "start", start_late)
        return may_start

    return hold_starts
