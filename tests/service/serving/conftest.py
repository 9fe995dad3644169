from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from service.sandbox.zygote import Zygote
from service.serving.pool import Pool
from service.storage.blobs import Blobs
from service.storage.local_blobs import LocalBlobs
from tests.pool_limits import pool_limits
from tracehouse.artifact.manifest import Artifact


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
