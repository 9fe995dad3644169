from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from sqlalchemy import Engine, event

from service.domain.outcome import Succeeded
from service.domain.trace_request import TraceRequest
from service.storage.blob_cache import CacheLimits
from service.storage.database import Store
from service.storage.transactions import connect
from tests.conftest import TENANT, make_artifact
from tracehouse.errors import ServiceError
from tracehouse.findings.finding import Finding
from tracehouse.findings.trace_check import TorchCheck, TraceCheck
from tracehouse.findings.verdict import Verdict
from tracehouse.spec.trace_spec import TraceSpec

BLOB_KINDS = ["file", "s3"]


@pytest.fixture
def blob_kind() -> str:
    """Where blobs are kept. Test modules about blobs have one that is each of BLOB_KINDS in turn."""
    return "file"


@pytest.fixture
def blob_url(blob_kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    if blob_kind == "s3":
        return request.getfixturevalue("bucket").url
    return (tmp_path / "state" / "blobs").as_uri()


@pytest.fixture
def cache_limits(tmp_path: Path) -> CacheLimits:
    return CacheLimits(directory=tmp_path / "cache", max_bytes=2**30)


@pytest.fixture
def store(database_url: str, blob_url: str, cache_limits: CacheLimits) -> Iterator[Store]:
    store = Store.open(database_url, blob_url, cache_limits)
    yield store
    store.close()


@pytest.fixture(scope="session")
def new_request() -> Callable[..., TraceRequest]:
    """A request that nobody has stored yet, and that is added whatever was before; arguments are fields of its spec."""

    def new_request(model: str = "net", tenant: str = TENANT, **spec: Any) -> TraceRequest:
        source = {"files": {"net.py": "class Net: ..."}, "entrypoint": "net:Net"}
        fields = {"model": model, "source": source, "example_inputs": [1.0], "force": True, **spec}
        parsed = TraceSpec.model_validate(fields)
        return TraceRequest.new(parsed, {}, torch_version="2", tenant=tenant)

    return new_request


@pytest.fixture(scope="session")
def success() -> Callable[..., Succeeded]:
    """What a worker gives for a request that was traced."""

    def success(request: TraceRequest, verdict: Verdict = Verdict.VERIFIED) -> Succeeded:
        findings = [] if verdict is Verdict.VERIFIED else [Finding(kind="branch", detail="a branch", line=3)]
        check = TraceCheck(verdict=verdict, comparisons=[], findings=findings, torch=TorchCheck(ran=False))
        artifact = make_artifact(entrypoint=request.spec.source.entrypoint, check=check)
        return Succeeded.of(request.spec, [artifact]).signed(lambda _: "signed")

    return success


@pytest.fixture
def register(store: Store, new_request, success) -> Callable[..., TraceRequest]:
    """Trace a model of that name, so that it has one more version; returns the request."""
    return registering(store, new_request, success)


def registering(store: Store, new_request, success) -> Callable[..., TraceRequest]:
    """Return what traces a model in the store."""

    def register(model: str, tenant: str = TENANT, **spec: Any) -> TraceRequest:
        request = store.trace_requests.add(new_request(model, tenant, **spec))
        claimed = store.trace_requests.claim(request.id)
        assert claimed is not None
        assert store.trace_requests.finish(claimed.id, claimed.attempt, success(claimed))
        return store.trace_requests.get(tenant, request.id)

    return register


@pytest.fixture
def at_once() -> Callable[..., list[Any]]:
    """Make all calls at the same moment; gives what each returned, or the domain error that it raised."""

    def at_once(*calls: Callable[[], Any]) -> list[Any]:
        barrier = Barrier(len(calls))

        def call(one: Callable[[], Any]) -> Any:
            barrier.wait()
            try:
                return one()
            except ServiceError as error:
                return error

        with ThreadPoolExecutor(len(calls)) as threads:
            return list(threads.map(call, calls))

    return at_once


@pytest.fixture
def plans_of(database_url):
    """Each statement that a call sends to the database, with how the database would run it."""
    engine = connect(database_url)

    def plans_of(call: Callable[[], object]) -> list[tuple[str, str]]:
        sent: list[tuple[str, Any]] = []

        def record(_connection: object, _cursor: object, statement: str, parameters: Any, *_: object) -> None:
            sent.append((statement, parameters))

        event.listen(Engine, "before_cursor_execute", record)
        try:
            call()
        finally:
            event.remove(Engine, "before_cursor_execute", record)
        explain = "EXPLAIN QUERY PLAN" if engine.dialect.name == "sqlite" else "EXPLAIN"
        sent = [(statement, parameters) for statement, parameters in sent if not statement.startswith("BEGIN")]
        with engine.connect() as connection:
            return [
                (statement, "\n".join(str(row) for row in connection.exec_driver_sql(f"{explain} {statement}", values)))
                for statement, values in sent
            ]

    yield plans_of
    engine.dispose()
