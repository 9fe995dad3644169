"""The metrics while requests for inference wait, are answered together, and are given up."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from service.api.app import create_app
from service.api.context import AppContext
from service.engine.embedded import EmbeddedEngine
from service.sandbox.zygote import Zygote
from service.serving.inference import Inference
from service.serving.pool import Pool
from service.storage.database import Store
from tests.conftest import PATIENCE_S, NewStore
from tests.metrics import Scrape
from tests.pool_limits import pool_limits
from tests.service.api.conftest import Register, Tracer, make_context, protocol_of, serving, start_engine
from tracehouse.artifact.manifest import Artifact

pytestmark = pytest.mark.anyio

BODY = {"args": [[1, 2]]}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def store(new_store: NewStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    store = new_store(tmp_path_factory.mktemp("metrics"))
    yield store
    store.close()


@pytest.fixture(scope="module")
def engine(store: Store) -> Iterator[EmbeddedEngine]:
    engine = start_engine(store, Tracer(store))
    yield engine
    engine.stop()


@pytest.fixture(scope="module")
def relu(store: Store, trace, register: Register) -> Artifact:
    import torch

    artifact = trace(store.blobs, torch.nn.ReLU(), torch.zeros(2))
    register("relu", artifact)
    return artifact


class Asked:
    """A service whose only runner can be stopped; `send` asks it, each time on a connection of its own."""

    def __init__(self, client: httpx.AsyncClient, pool: Pool, digest: str) -> None:
        self._client = client
        self._pool = pool
        self._digest = digest

    def send(self, count: int) -> list["asyncio.Task[httpx.Response]"]:
        return [asyncio.create_task(self._client.post("/infer/relu", json=BODY)) for _ in range(count)]

    def signal(self, number: int) -> None:
        pid = self._pool.runners["default", self._digest, 1].pid
        assert pid is not None
        os.kill(pid, number)

    async def scrape(self) -> Scrape:
        return Scrape.of(await self._client.get("/metrics"))

    async def until_waiting(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while (await self.scrape()).value("nv_inference_pending_request_count", model="relu") != count:  # noqa: ASYNC110
                await asyncio.sleep(0.01)


@asynccontextmanager
async def asking(
    answerer: str, store: Store, engine: EmbeddedEngine, state_dir: Path, zygote: Zygote, artifact: Artifact
) -> AsyncIterator[Asked]:
    """One that has a runner and, as the second request is, answers by the fast path where it is told to."""
    pool = Pool(zygote, store.blobs, pool_limits())
    context: AppContext = replace(make_context(store, engine, state_dir), inference=Inference(store, pool))
    limits = httpx.Limits(max_connections=50)
    with serving(create_app(context), http=protocol_of(answerer, context)) as (host, port):
        async with httpx.AsyncClient(base_url=f"http://{host}:{port}", timeout=PATIENCE_S, limits=limits) as client:
            asked = Asked(client, pool, artifact.digest)
            for _ in range(2):
                assert (await client.post("/infer/relu", json=BODY)).status_code == 200
            yield asked


@pytest.mark.parametrize("answerer", ["app", "fast path"])
async def test_requests_wait_until_a_runner_takes_them(
    answerer: str, store: Store, engine: EmbeddedEngine, tmp_path: Path, torch_zygote: Zygote, relu: Artifact
) -> None:
    async with asking(answerer, store, engine, tmp_path, torch_zygote, relu) as asked:
        asked.signal(signal.SIGSTOP)
        sent = asked.send(3)
        await asked.until_waiting(2)
        meanwhile = await asked.scrape()
        asked.signal(signal.SIGCONT)
        answers = await asyncio.gather(*sent)
        after = await asked.scrape()

    assert [answer.status_code for answer in answers] == [200] * 3
    assert meanwhile.value("tracehouse_inference_waiting", device="cpu") == 2
    assert meanwhile.value("tracehouse_inference_in_flight", device="cpu") == 3
    assert meanwhile.value("tracehouse_runners", device="cpu", state="busy") == 1
    assert meanwhile.value("nv_inference_request_success", model="relu") == 2
    assert after.value("nv_inference_pending_request_count", model="relu") == 0
    assert after.value("tracehouse_inference_waiting", device="cpu") == 0
    assert after.value("tracehouse_inference_in_flight", device="cpu") == 0
    assert after.value("nv_inference_request_success", model="relu") == 5
    assert after.value("tracehouse_inference_queue_seconds_count") == 5


@pytest.mark.parametrize("answerer", ["app", "fast path"])
async def test_a_request_whose_client_leaves_is_a_cancelled_one(
    answerer: str, store: Store, engine: EmbeddedEngine, tmp_path: Path, torch_zygote: Zygote, relu: Artifact
) -> None:
    async with asking(answerer, store, engine, tmp_path, torch_zygote, relu) as asked:
        asked.signal(signal.SIGSTOP)
        first = asked.send(1)
        await asked.until_waiting(0)
        left = asked.send(2)
        await asked.until_waiting(2)
        for task in left:
            task.cancel()
        await asked.until_waiting(0)
        asked.signal(signal.SIGCONT)
        await asyncio.gather(*first)
        after = await asked.scrape()

    assert after.value("nv_inference_request_failure", model="relu", reason="CANCELED") == 2
    assert after.value("nv_inference_request_success", model="relu") == 3
    assert after.exchanges("POST", "/infer/{model}", 499) == 2


async def test_a_lost_runner_is_counted_and_its_request_is_answered(
    store: Store, engine: EmbeddedEngine, tmp_path: Path, torch_zygote: Zygote, relu: Artifact
) -> None:
    async with asking("fast path", store, engine, tmp_path, torch_zygote, relu) as asked:
        asked.signal(signal.SIGSTOP)
        sent = asked.send(2)
        await asked.until_waiting(1)
        asked.signal(signal.SIGKILL)
        answers = await asyncio.gather(*sent)
        after = await asked.scrape()

    assert [answer.status_code for answer in answers] == [200] * 2
    assert after.value("tracehouse_runners_lost_total") == 1
    assert after.value("tracehouse_runner_start_seconds_count") == 2
    assert after.value("nv_inference_request_success", model="relu") == 4
