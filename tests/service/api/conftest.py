"""The API on a real store and a real engine, whose work is an outcome that the submitted model's name asks for."""

import struct
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from fastapi import FastAPI
from fastapi.testclient import TestClient

from service.api.app import create_app
from service.api.context import AppContext
from service.api.fast_path import FastPath
from service.api.held_bytes import HeldBytes, HeldLimits
from service.api.http.connection import BoundedProtocol, bounded_protocol
from service.api.http.places import Places
from service.api.limits import RequestLimits
from service.domain import eager_outputs
from service.domain.api_key import DEFAULT_TENANT, Scope
from service.domain.errors import TooMuchArrives, TooMuchUnread
from service.domain.outcome import NotTraced, RanEagerly, Succeeded
from service.domain.quotas import NO_QUOTAS, Quotas
from service.domain.trace_request import Stage, TraceRequest
from service.engine.embedded import EmbeddedEngine
from service.engine.further_check import FurtherChecks
from service.environments.environments import Environments
from service.sandbox.cancellation import Cancellation
from service.sandbox.limits import Limits
from service.sandbox.tiers import Tier
from service.sandbox.zygote import Zygote, ZygoteHealth
from service.serving.inference import Inference
from service.serving.keeper import Keeper
from service.serving.pictures import PictureLimits, Pictures
from service.serving.pool import Pool, PoolLimits
from service.signing.signer import Signer
from service.signing.signing_keys import PublicKeys
from service.storage.database import Store
from service.turns import TurnLimits, Turns
from tests.conftest import PATIENCE_S, NewStore, keep, make_artifact
from tests.pool_limits import pool_limits
from tracehouse.artifact.manifest import Artifact, GraphNode, Printout, Submodule, Versions
from tracehouse.artifact.printouts import write
from tracehouse.contract.contract import Contract, MethodContract
from tracehouse.contract.input_spec import InputSpec
from tracehouse.contract.output_spec import OutputSpec
from tracehouse.contract.structure import Argument, BakedLeaf, TensorLeaf, TupleNode
from tracehouse.errors import SourceSyntaxError
from tracehouse.findings.finding import Finding
from tracehouse.findings.trace_check import TorchCheck, TraceCheck
from tracehouse.findings.verdict import Verdict
from tracehouse.spec.conversion import Conversion
from tracehouse.spec.trace_spec import TraceSpec
from tracehouse.tensors.tensor import Datatype, Tensor, TensorSpec

SIGNER = Signer(Ed25519PrivateKey.generate())
ARCHIVE = bytes(range(256)) * 40
REQUEST_MAX_BYTES = 100_000
UPLOAD_MAX_BYTES = 3_000_000
ANSWER_MAX_BYTES = 1_000
HELD = HeldLimits(max_bytes=UPLOAD_MAX_BYTES, tenant_max_bytes=UPLOAD_MAX_BYTES)
PICTURE_LIMITS = PictureLimits(child=Limits(address_space_mib=8192, cpu_s=60), timeout_s=PATIENCE_S)
MANY_TURNS = TurnLimits(running_max=4, tenant_running_max=4, waiting_max=200, tenant_waiting_max=200)

NODES = [
    GraphNode(operator="prim::GetAttr", inputs=["self"], outputs=["weight"], types=["Tensor"]),
    GraphNode(
        operator="aten::linear",
        inputs=["x", "weight"],
        outputs=["y"],
        types=["Float(1, 2)"],
        scope="__module.layer",
        file="linear.py",
        line=10,
        source="return torch.relu(self.layer(x))",
    ),
    GraphNode(operator="aten::relu", inputs=["y"], outputs=["z"], types=["Float(1, 2)"], file="linear.py", line=10),
]
PRINTOUTS = [
    Printout(
        kind="graph", method="forward", submodule="", text="graph(%x)\n", inputs=["x"], outputs=["z"], nodes=NODES
    ),
    Printout(
        kind="inlined_graph",
        method="forward",
        submodule="",
        text="graph(%self, %x): inlined\n",
        inputs=["self", "x"],
        outputs=["z"],
        nodes=NODES,
    ),
    Printout(kind="code", method="forward", submodule="", text="def forward(self, x): ...\n"),
    Printout(kind="onnx_trace", method="forward", submodule="", text="graph(%x, %weight)\n", nodes=NODES[1:]),
    Printout(kind="dump", method="", submodule="", text="module Linear {\n}\n"),
    Printout(kind="graph", method="forward", submodule="layer", text="graph(%layer)\n", nodes=NODES[:2]),
]
RETURNED = [
    eager_outputs.EagerResult(
        "forward",
        "example",
        TupleNode(tuple=[TensorLeaf(tensor="output.0"), BakedLeaf(baked="text")]),
        [Tensor("output.0", Datatype.FP32, (1, 2), struct.pack("<2f", 1.5, float("nan")))],
    ),
    eager_outputs.EagerResult("forward", "check_inputs[0]", BakedLeaf(baked=None), []),
]


Address = tuple[str, int]


def spec(model: str = "linear", **members: Any) -> dict[str, Any]:
    """A small submission; its model's name says what becomes of it."""
    return {
        "model": model,
        "source": {"files": {"linear.py": "import torch\n"}, "entrypoint": "linear:Linear"},
        "example_inputs": [{"datatype": "FP32", "shape": [1, 4], "random": {"seed": 0}}],
        **members,
    }


class Tracer:
    """The engine's work. `stays` runs until it is cancelled, `fails` fails, every other model is traced, or returns
    what RETURNED says."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.running = threading.Event()

    def run(self, request_id: str, cancellation: Cancellation) -> None:
        request = self._store.trace_requests.claim(request_id)
        if request is None:
            return
        self._store.trace_requests.report(request.id, request.attempt, Stage.TRACING, 0.5)
        self._store.events.append(request.id, "log", {"text": "printed\n"})
        if request.spec.model == "stays":
            self._stay(request, cancellation)
        elif request.spec.model == "fails":
            failure = SourceSyntaxError("invalid syntax", file="linear.py", line=3).failure()
            self._store.trace_requests.finish(request.id, request.attempt, NotTraced(failure=failure))
        elif request.spec.mode == "eager":
            outputs = keep(self._store.blobs, b"".join(eager_outputs.iter_file_bytes(RETURNED)))
            self._store.trace_requests.finish(request.id, request.attempt, RanEagerly(outputs=outputs))
        else:
            outcome = Succeeded.of(request.spec, [self.traced(request)]).signed(SIGNER.sign)
            self._store.trace_requests.finish(request.id, request.attempt, outcome)

    def traced(self, request: TraceRequest) -> Artifact:
        return traced(self._store, request)

    def _stay(self, request: TraceRequest, cancellation: Cancellation) -> None:
        ended = threading.Event()
        with cancellation.calls(ended.set):
            self.running.set()
            assert ended.wait(PATIENCE_S), "nobody cancelled it"
        if cancellation.reason != "cancelled":
            self._store.trace_requests.release(request.id, request.attempt)


def traced(store: Store, request: TraceRequest) -> Artifact:
    x = TensorSpec(name="x", datatype=Datatype.FP32, shape=(1, 4))
    output = TensorSpec(name="output", datatype=Datatype.FP32, shape=(1, 2))
    method = MethodContract(
        arguments=[Argument(name="x", structure=TensorLeaf(tensor="x"))],
        inputs=[InputSpec.from_example(x)],
        outputs=[OutputSpec.from_example(output)],
        returns=TensorLeaf(tensor="output"),
    )
    finding = Finding(kind="tracer-warning", detail="a shape became a number", file="linear.py", line=10)
    return make_artifact(
        entrypoint=request.spec.source.entrypoint,
        conversion=Conversion(),
        continues=request.continues,
        contract=Contract(methods={"forward": method}),
        check=TraceCheck(
            verdict=Verdict.VERIFIED, comparisons=[], findings=[finding], torch=TorchCheck(ran=True, passed=True)
        ),
        archive=keep(store.blobs, ARCHIVE),
        printouts=keep(store.blobs, write(PRINTOUTS)),
        golden=keep(store.blobs, b"golden"),
        submodules=[Submodule(name="layer", type="Linear", methods=["forward"])],
        parameters=[TensorSpec(name="layer.weight", datatype=Datatype.FP32, shape=(2, 4))],
        versions=Versions(torch="2.13.0", python="3.11", tracehouse="0.1.0"),
    )


def start_engine(store: Store, tracer: Tracer, quotas: Quotas = NO_QUOTAS) -> EmbeddedEngine:
    engine = EmbeddedEngine(store, tracer.run, slots={"cpu": 2}, queue_max=20, attempts=3, quotas=quotas)
    engine.start()
    return engine


def idle_pool(store: Store) -> Pool:
    """A pool that is never asked for an answer, for its zygote does not run."""
    return Pool(Zygote([], tier=Tier.NONE), store.blobs, pool_limits())


def make_context(store: Store, engine: EmbeddedEngine, state_dir: Path) -> AppContext:
    return AppContext(
        store=store,
        engine=engine,
        environments=Environments(state_dir / "environments"),
        further_checks=FurtherChecks(store, Environments(state_dir / "environments"), "2.13.0"),
        inference=Inference(store, idle_pool(store)),
        pictures=Pictures(Zygote([], tier=Tier.NONE), PICTURE_LIMITS),
        sandbox_health=lambda: ZygoteHealth(None, 0),
        tier=Tier.LANDLOCK,
        state_dir=state_dir,
        torch_version="2.13.0",
        signing_keys=PublicKeys(SIGNER.public_key),
        limits=RequestLimits(
            request_max_bytes=REQUEST_MAX_BYTES,
            upload_max_bytes=UPLOAD_MAX_BYTES,
            answer_max_bytes=ANSWER_MAX_BYTES,
            request_idle_s=30,
            body_bytes_per_s_min=1000,
            tenant_connections_max=50,
            streams_max=200,
            tenant_streams_max=50,
            key_requests_per_minute=600,
            heartbeat_s=0.05,
        ),
        turns=Turns(MANY_TURNS),
        transfers=Turns(MANY_TURNS),
        drawings=Turns(MANY_TURNS),
        parsings=Turns(MANY_TURNS),
        submissions=Turns(MANY_TURNS),
        decodings=Turns(MANY_TURNS),
        arriving=HeldBytes(HELD, TooMuchArrives),
        unread=HeldBytes(HELD, TooMuchUnread),
        keys_required=False,
    )


def with_limits(context: AppContext, **limits: float) -> AppContext:
    return replace(context, limits=replace(context.limits, **limits))


def local(app: FastAPI) -> TestClient:
    """A client on the same machine: without keys, no other is answered."""
    return TestClient(app, base_url="http://localhost", raise_server_exceptions=False)


@contextmanager
def running(new_store: NewStore, directory: Path, **changes: Any) -> Iterator[tuple[TestClient, Store]]:
    """A whole service on a new store."""
    store = new_store(directory)
    engine = start_engine(store, Tracer(store))
    with local(create_app(replace(make_context(store, engine, directory), **changes))) as client:
        yield client, store
    engine.stop()
    store.close()


def authorized(store: Store, *scopes: Scope, tenant: str = "acme", **limits: Any) -> dict[str, str]:
    """The headers of somebody with a new key; with every scope of a tenant's own, unless some are named."""
    of_tenant = {scope for scope in Scope if scope.of_tenant}
    _, token = store.api_keys.create("somebody", tenant, scopes or of_tenant, **limits)
    return {"authorization": f"Bearer {token}"}


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def store(new_store: NewStore, state_dir: Path) -> Iterator[Store]:
    store = new_store(state_dir)
    yield store
    store.close()


@pytest.fixture
def tracer(store: Store) -> Tracer:
    return Tracer(store)


@pytest.fixture
def engine(store: Store, tracer: Tracer) -> Iterator[EmbeddedEngine]:
    engine = start_engine(store, tracer)
    yield engine
    engine.stop()


@pytest.fixture
def context(store: Store, engine: EmbeddedEngine, state_dir: Path) -> AppContext:
    return make_context(store, engine, state_dir)


@pytest.fixture
def app(context: AppContext) -> FastAPI:
    return create_app(context)


@pytest.fixture
def client(app: FastAPI) -> Iterator[TestClient]:
    with local(app) as client:
        yield client


@pytest.fixture(scope="session")
def steady_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("steady")


@pytest.fixture(scope="session")
def steady(new_store: NewStore, steady_dir: Path) -> Iterator[TestClient]:
    """For requests that change nothing: one service for all of them, with one version of the model `linear`."""
    with running(new_store, steady_dir) as (client, _):
        client.post("/trace", json=spec(), headers={"prefer": "wait=30"})
        yield client


@pytest.fixture
def staged(state_dir: Path) -> Path:
    """Where files lie while they arrive."""
    return state_dir / "blobs" / "tmp"


@pytest.fixture(scope="session")
def digest(steady: TestClient) -> str:
    """Of an artifact that is there."""
    return str(steady.get("/trace").json()["trace_requests"][0]["artifacts"][0]["digest"])


class Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.reached = threading.Event()

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self.reached.set()


def protocol(
    *, idle_s: float = 20, head_s: float = 20, places: Places | None = None, fast_path: FastPath | None = None
) -> type[BoundedProtocol]:
    """What the service gives `uvicorn.Config(http=...)`, with places for all, unless others are given."""
    places = places or Places(connections_max=1000, address_max=1000)
    return bounded_protocol(idle_s=idle_s, head_s=head_s, places=places, fast_path=fast_path)


def protocol_of(answerer: str, context: AppContext) -> type[BoundedProtocol]:
    """The protocol with the fast path, or without it if `answerer` is "app"."""
    return protocol(fast_path=None if answerer == "app" else FastPath(context, has_cors=False))


@contextmanager
def serving(app: FastAPI, **options: Any) -> Iterator[tuple[str, int]]:
    """A real server on a free port of this machine."""
    server = Server(
        uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None, timeout_graceful_shutdown=5, **options)
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        assert server.reached.wait(PATIENCE_S), "the server did not start"
        yield server.servers[0].sockets[0].getsockname()[:2]
    finally:
        server.should_exit = True
        thread.join(PATIENCE_S)


@contextmanager
def serving_runners(
    store: Store,
    zygote: Zygote,
    state_dir: Path,
    *,
    answerer: str = "app",
    memory_max_bytes: int | None = None,
    limits: PoolLimits | None = None,
    change: Callable[[AppContext], AppContext] = lambda context: context,
    pool: Pool | None = None,
) -> Iterator[str]:
    """A real server whose models are answered by real runners; its host and port. `change` has the last word."""
    engine = start_engine(store, Tracer(store))
    pool = pool or Pool(zygote, store.blobs, limits or pool_limits())

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with Keeper(store, inference, pool, every_s=0.02):
            yield
        await inference.close()

    inference = Inference(store, pool, memory_max_bytes=memory_max_bytes)
    context = change(replace(make_context(store, engine, state_dir), inference=inference))
    with serving(create_app(context, lifespan), http=protocol_of(answerer, context)) as (host, port):
        yield f"{host}:{port}"
    engine.stop()


@pytest.fixture
def address(app: FastAPI) -> Iterator[tuple[str, int]]:
    with serving(app) as address:
        yield address


@pytest.fixture
def live(address: tuple[str, int]) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"http://{address[0]}:{address[1]}", timeout=PATIENCE_S, verify=False) as client:
        yield client


Register = Callable[..., None]


@pytest.fixture(scope="module")
def register(store: Store) -> Register:
    """Make the artifacts, one for each device, the next version of a model; `check` is that of its request."""

    def register(model: str, *artifacts: Artifact, check: Any = None) -> None:
        source = {"files": {"net.py": "class Net: ..."}, "entrypoint": "net:Net"}
        spec = TraceSpec.model_validate(
            {
                "model": model,
                "source": source,
                "example_inputs": [1.0],
                "accept_unsound": True,
                "force": True,
                "check": check or {},
            }
        )
        added = store.trace_requests.add(TraceRequest.new(spec, {}, torch_version="2", tenant=DEFAULT_TENANT))
        claimed = store.trace_requests.claim(added.id)
        assert claimed is not None
        assert store.trace_requests.finish(claimed.id, claimed.attempt, Succeeded.of(spec, artifacts))

    return register


def assert_problem(answer: Any, status: int, code: str) -> dict[str, Any]:
    """Assert that this answer is this problem, and return its document."""
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    document: dict[str, Any] = answer.json()
    assert (answer.status_code, document["code"]) == (status, code), document
    assert document["type"] == f"/problems/{code}"
    assert document["status"] == status
    assert document["error"] == document["detail"]
    return document
