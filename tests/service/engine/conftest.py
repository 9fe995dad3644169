from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from service.domain.quotas import NO_QUOTAS, Quotas
from service.domain.trace_request import TraceRequest
from service.engine.distributed import DistributedEngine
from service.engine.embedded import EmbeddedEngine
from service.engine.queue import Engine, Work
from service.storage.database import Store
from tests.conftest import PATIENCE_S, TENANT
from tests.service.conftest import POSTGRES_URL
from tracehouse.spec.trace_spec import BudgetName, TraceSpec

EngineClass = type[EmbeddedEngine] | type[DistributedEngine]


def _engines() -> list[Any]:
    """Each engine, on each database that it is for."""
    pairs: list[tuple[EngineClass, str]] = [(EmbeddedEngine, "sqlite")]
    if POSTGRES_URL:
        pairs += [(EmbeddedEngine, "postgresql"), (DistributedEngine, "postgresql")]
    return [pytest.param(pair, id=f"{pair[0].__name__}-{pair[1]}") for pair in pairs]


@pytest.fixture(params=_engines())
def _engine_and_database(request: pytest.FixtureRequest) -> tuple[EngineClass, str]:
    pair: tuple[EngineClass, str] = request.param
    return pair


@pytest.fixture
def engine_class(_engine_and_database: tuple[EngineClass, str]) -> EngineClass:
    return _engine_and_database[0]


@pytest.fixture
def database_kind(_engine_and_database: tuple[EngineClass, str]) -> str:
    """One that the engine is for."""
    return _engine_and_database[1]


@pytest.fixture
def store(database_url: str, tmp_path: Path) -> Iterator[Store]:
    store = Store.open(database_url, (tmp_path / "state" / "blobs").as_uri())
    yield store
    store.close()


@pytest.fixture
def new_engine(engine_class: EngineClass, store: Store) -> Iterator[Callable[..., Engine]]:
    """Make an engine that runs this work; each is stopped at the end."""
    engines: list[Engine] = []

    def new_engine(
        work: Work,
        slots: int = 2,
        queue_max: int = 100,
        attempts: int = 3,
        quotas: Quotas = NO_QUOTAS,
        gpu_slots: int = 0,
        limits_s: Mapping[BudgetName, float] = MappingProxyType({}),
    ) -> Engine:
        of_pools = {"cpu": slots, "gpu": gpu_slots}
        engine: Engine = engine_class(
            store, work, of_pools, queue_max, attempts, pause_s=0.01, quotas=quotas, limits_s=limits_s
        )
        engines.append(engine)
        return engine

    yield new_engine
    for engine in engines:
        engine.stop(PATIENCE_S)


@pytest.fixture
def new_request() -> Callable[..., TraceRequest]:
    def new_request(tenant: str = TENANT, **members: Any) -> TraceRequest:
        source = {"files": {"net.py": ""}, "entrypoint": "net:Net"}
        submitted = {"model": "net", "source": source, "example_inputs": [1.0], "force": True, **members}
        spec = TraceSpec.model_validate(submitted)
        return TraceRequest.new(spec, {}, torch_version="2", tenant=tenant)

    return new_request
