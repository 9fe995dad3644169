"""Inference over HTTP, on real runners."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from service.api.app import create_app
from service.api.context import AppContext
from service.api.held_bytes import HeldBytes, HeldLimits
from service.domain.api_key import DEFAULT_TENANT
from service.domain.errors import TooMuchUnread
from service.engine.embedded import EmbeddedEngine
from service.sandbox.zygote import Zygote
from service.serving.inference import Inference
from service.serving.pool import Pool
from service.storage.database import Store
from tests.conftest import PATIENCE_S, NewStore, Trace, damage, keep
from tests.pool_limits import pool_limits
from tests.service.api.conftest import (
    REQUEST_MAX_BYTES,
    Register,
    Tracer,
    assert_problem,
    idle_pool,
    local,
    make_context,
    protocol_of,
    serving,
    start_engine,
)
from tracehouse.artifact.manifest import Artifact
from tracehouse.byte_units import MIB
from tracehouse.contract.contract import Contract, MethodClaim, OtherRanks
from tracehouse.contract.input_spec import InputSpec, ValueRange
from tracehouse.contract.memory import Memory, SizeProduct
from tracehouse.contract.regions import Region, Span
from tracehouse.findings.finding import Finding
from tracehouse.findings.verdict import Verdict
from tracehouse.tensors.tensor import Datatype, TensorSpec

X = [[1.0, 2.0], [3.0, 4.0]]
TENSOR = {"name": "x", "datatype": "FP32", "shape": [2, 2], "data": [1.0, 2.0, 3.0, 4.0]}


Asked = Callable[..., Any]


@pytest.fixture(scope="module", params=["app", "fast path"])
def answerer(request: pytest.FixtureRequest) -> str:
    """Who answers what the fast path can."""
    return str(request.param)


@pytest.fixture(scope="module")
def state_dir(answerer: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("inference")


@pytest.fixture(scope="module")
def store(new_store: NewStore, state_dir: Path) -> Iterator[Store]:
    """One for all tests here: each gives the models it needs a name of their own."""
    store = new_store(state_dir)
    yield store
    store.close()


@pytest.fixture(scope="module")
def engine(store: Store) -> Iterator[EmbeddedEngine]:
    engine = start_engine(store, Tracer(store))
    yield engine
    engine.stop()


@pytest.fixture(scope="module")
def pool(store: Store, torch_zygote: Zygote) -> Pool:
    return Pool(torch_zygote, store.blobs, pool_limits())


@pytest.fixture(scope="module")
def context(store: Store, engine: EmbeddedEngine, state_dir: Path, pool: Pool) -> AppContext:
    return replace(make_context(store, engine, state_dir), inference=Inference(store, pool, memory_max_bytes=MIB))


class Insistent(httpx.Client):
    """Posts all twice, for the fast path leaves the first request for a model to the app. Both are answered alike."""

    def post(self, *args: Any, **kwargs: Any) -> httpx.Response:
        first, second = super().post(*args, **kwargs), super().post(*args, **kwargs)
        assert first.status_code == second.status_code
        assert first.headers.keys() == second.headers.keys()
        return second


@contextmanager
def answering(answerer: str, context: AppContext, pool: Pool) -> Iterator[httpx.Client]:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await pool.close(grace_s=0)

    app = create_app(context, lifespan)
    if answerer == "app":
        with local(app) as client:
            yield client
        return
    with (
        serving(app, http=protocol_of(answerer, context)) as (host, port),
        Insistent(base_url=f"http://{host}:{port}", timeout=PATIENCE_S) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def client(answerer: str, context: AppContext, pool: Pool) -> Iterator[httpx.Client]:
    with answering(answerer, context, pool) as client:
        yield client


@pytest.fixture(scope="module")
def net(store: Store, trace, register: Register) -> Artifact:
    """Model `net`: forward(x 2×2, pair (ids, [mask]), mode="fast") → (x + 1, any of mask, ids doubled)."""
    import torch

    class Net(torch.nn.Module):
        def forward(self, x, pair, mode):
            ids, (mask,) = pair
            return x + 1, mask.any(), ids * 2

    artifact = trace(
        store.blobs, Net(), torch.zeros(2, 2), (torch.zeros(3, dtype=torch.int64), [torch.zeros(2) > 0]), "fast"
    )
    register("net", artifact)
    return artifact


PAIR = [[1, 2, 3], [[False, True]]]


def asking(client: httpx.Client) -> Asked:
    def asked(body: Any, path: str = "/infer/net", **options: Any) -> Any:
        return client.post(path, **({"content": body} if isinstance(body, bytes) else {"json": body}), **options)

    return asked


@pytest.fixture
def asked(client: httpx.Client, net: Artifact) -> Asked:
    """The reply of `net` to a body."""
    return asking(client)


def test_the_reply_has_the_protocols_form(asked) -> None:
    reply = asked({"id": "sieben", "args": [X, PAIR]})
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-type"] == "application/json"
    assert "warning" not in reply.headers
    assert reply.json() == {
        "model_name": "net",
        "model_version": "1",
        "id": "sieben",
        "outputs": [
            {"name": "output.0", "datatype": "FP32", "shape": [2, 2], "data": [2.0, 3.0, 4.0, 5.0]},
            {"name": "output.1", "datatype": "BOOL", "shape": [], "data": [True]},
            {"name": "output.2", "datatype": "INT64", "shape": [3], "data": [2, 4, 6]},
        ],
    }


@pytest.fixture(scope="module")
def noisy(store: Store, trace, register: Register) -> "Callable[[int], list[float]]":
    """Model `noisy`: forward(x 2×2) → x and noise. Returned is what eager answers to X under a seed."""
    import torch

    class Net(torch.nn.Module):
        def forward(self, x):
            return torch.nn.functional.dropout(x, 0.5, training=True) + torch.randn_like(x)

    register("noisy", trace(store.blobs, Net(), torch.zeros(2, 2), seed=2**62))

    def answer_eagerly(seed: int) -> list[float]:
        torch.manual_seed(seed)
        values: list[float] = Net()(torch.tensor(X)).flatten().tolist()
        return values

    return answer_eagerly


def values(reply: dict[str, Any]) -> list[float]:
    data: list[float] = reply["outputs"][0]["data"]
    return data


@pytest.mark.parametrize("seed", [0, 7, 2**63 - 1])
@pytest.mark.parametrize("body", [{"args": [X]}, {"inputs": {"x": X}}, {"inputs": [TENSOR]}])
def test_a_seed_gives_the_answer_of_eager_under_that_seed(asked, noisy, body: dict[str, Any], seed: int) -> None:
    reply = asked(body | {"parameters": {"seed": seed}}, "/infer/noisy").json()

    assert reply["parameters"] == {"seed": seed}
    assert values(reply) == pytest.approx(noisy(seed))


@pytest.mark.usefixtures("noisy")
def test_each_request_without_a_seed_draws_other_numbers_and_says_the_seed(asked) -> None:
    replies = [asked({"args": [X]}, "/infer/noisy").json() for _ in range(3)]

    assert len({tuple(values(reply)) for reply in replies}) == 3
    assert all(reply["parameters"]["seed"] < 2**53 for reply in replies)
    for reply in replies:
        again = asked({"args": [X], "parameters": reply["parameters"]}, "/infer/noisy").json()
        assert values(again) == values(reply)


def test_a_seed_changes_nothing_where_no_random_numbers_are_drawn(asked) -> None:
    body = {"args": [X, PAIR]}

    without, seeded = asked(body).json(), asked(body | {"parameters": {"seed": 7}}).json()

    assert seeded["outputs"] == without["outputs"]
    assert "parameters" not in without


@pytest.mark.parametrize("seed", [-1, 2**63, True, 1.5, "7", [7]])
def test_what_is_no_seed_is_refused(asked, seed: Any) -> None:
    problem = assert_problem(asked({"args": [X, PAIR], "parameters": {"seed": seed}}), 422, "invalid-request")

    assert problem["errors"][0]["pointer"] == "/parameters/seed"


@pytest.fixture(scope="module")
def returns_more(store: Store, trace, register: Register) -> None:
    """Model `returns-more`, of which the artifact returns the tensors alone: forward(x) → a dict with constants."""
    import torch

    class Net(torch.nn.Module):
        def forward(self, x):
            return {"y": x + 1, "labels": ["cat", None, 2.5], "spectrum": torch.fft.rfft(x)}

    register("returns-more", trace(store.blobs, Net(), torch.zeros(2, 2)))


@pytest.mark.usefixtures("returns_more")
@pytest.mark.parametrize("body", [{"args": [X]}, {"inputs": {"x": X}}, {"inputs": [TENSOR]}])
def test_the_reply_has_the_constants_in_their_places(asked, body: dict[str, Any]) -> None:
    reply = asked(body, "/infer/returns-more").json()

    assert reply["returns"] == {
        "mapping": {
            "y": {"tensor": "output.y"},
            "labels": {"baked": ["cat", None, 2.5]},
            "spectrum": {"complex": "output.spectrum"},
        }
    }
    assert reply["outputs"] == [
        {"name": "output.y", "datatype": "FP32", "shape": [2, 2], "data": [2.0, 3.0, 4.0, 5.0]},
        {
            "name": "output.spectrum",
            "datatype": "FP32",
            "shape": [2, 2, 2],
            "parameters": {"complex": True},
            "data": [3.0, 0.0, -1.0, 0.0, 7.0, 0.0, -1.0, 0.0],
        },
    ]


@pytest.mark.usefixtures("returns_more")
def test_the_reply_has_the_constants_beside_the_outputs_that_are_asked_for(asked) -> None:
    reply = asked({"args": [X], "outputs": [{"name": "output.y"}]}, "/infer/returns-more").json()

    assert [output["name"] for output in reply["outputs"]] == ["output.y"]
    assert reply["returns"]["mapping"]["labels"] == {"baked": ["cat", None, 2.5]}


IDS = {"name": "pair.0", "datatype": "INT64", "shape": [3], "data": [1, 2, 3]}
MASK = {"name": "pair.1.0", "datatype": "BOOL", "shape": [2], "data": [False, True]}


@pytest.mark.parametrize(
    "body",
    [
        {"inputs": [TENSOR, IDS, MASK]},
        {"inputs": [MASK, TENSOR | {"data": X}, IDS], "outputs": [{"name": "output.2"}]},
        {"inputs": {"x": X, "pair": PAIR}},
        {"inputs": {"x": X, "pair.0": [1, 2, 3], "pair.1.0": {"data": [False, True]}}},
        {"args": [X, {"tuple": PAIR}, "fast"]},
        {"args": [X], "kwargs": {"pair": PAIR, "mode": "fast"}},
    ],
)
def test_every_form_is_answered(asked, body: dict[str, Any]) -> None:
    reply = asked(body)
    assert reply.status_code == 200, reply.text
    outputs = {output["name"]: output["data"] for output in reply.json()["outputs"]}
    assert outputs["output.2"] == [2, 4, 6]
    assert len(outputs) == (1 if "outputs" in body else 3)


def test_a_body_may_name_the_model(asked) -> None:
    assert asked({"model": "net:1", "args": [X, PAIR]}, "/infer").json()["model_version"] == "1"


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"net","args":[%b]}',
        b'{"args":[%b],"model":"net"}',
        b'{"args":[%b],"model":"net","id":"x"}',
        b'{"args":[%b],"mod\\u0065l":"net"}',
    ],
)
def test_a_body_may_name_the_model_anywhere(asked, body: bytes) -> None:
    values = b"[[1,2],[3,4]],[[1,2,3],[[true,false]]]"

    assert asked(body % values, "/infer").json()["model_name"] == "net"
    assert_problem(asked(body % values + b"}", "/infer"), 400, "malformed-json")
    assert_problem(asked((body % values).replace(b'"net"', b'"none"'), "/infer"), 404, "model-not-found")
    assert_problem(asked((body % values).replace(b'"net"', b"7"), "/infer"), 422, "invalid-request")


def test_a_body_without_content_type_is_taken_for_json(asked) -> None:
    assert asked(b'{"args": [[[1, 2], [3, 4]], [[1, 2, 3], [[true, false]]]]}').status_code == 200


def test_versions_and_aliases_answer_for_themselves(
    asked: Asked, net: Artifact, store: Store, trace, register: Register
) -> None:
    import torch

    register("versioned", net)
    register("versioned", trace(store.blobs, torch.nn.ReLU(), torch.zeros(1)))
    store.models.put_alias(DEFAULT_TENANT, "versioned", "prod", 1, None)
    assert asked({"args": [[-2.0]]}, "/infer/versioned:2").json()["outputs"][0]["data"] == [0.0]
    assert asked({"args": [X, PAIR]}, "/infer/versioned:1").json()["model_version"] == "1"
    assert asked({"args": [X, PAIR]}, "/infer/versioned@prod").json()["model_version"] == "1"
    store.models.put_alias(DEFAULT_TENANT, "versioned", "prod", 2, "*")
    assert asked({"args": [[-2.0]]}, "/infer/versioned@prod").json()["model_version"] == "2"


def test_a_version_that_accepts_less_answers_once_it_is_promoted(
    asked: Asked, net: Artifact, store: Store, trace, register: Register
) -> None:
    import torch

    register("promoted", net)
    register("promoted", trace(store.blobs, torch.nn.ReLU(), torch.zeros(1)))
    assert asked({"args": [X, PAIR]}, "/infer/promoted").json()["model_version"] == "1"

    store.models.promote(DEFAULT_TENANT, "promoted", 2)

    assert asked({"args": [[-2.0]]}, "/infer/promoted").json()["model_version"] == "2"
    assert_problem(asked({"args": [X, PAIR]}, "/infer/promoted"), 422, "unexpected-input")
    store.models.promote(DEFAULT_TENANT, "promoted", 1)
    assert asked({"args": [X, PAIR]}, "/infer/promoted").json()["model_version"] == "1"


def test_what_json_cannot_say_is_said_by_name(asked, store: Store, trace, register: Register) -> None:
    import torch

    class Inverse(torch.nn.Module):
        def forward(self, batch):
            return 1 / batch["größe"]

    register("inverse", trace(store.blobs, Inverse(), {"größe": torch.ones(4, dtype=torch.float64)}))
    reply = asked({"inputs": {"batch.größe": [0, "-Infinity", "NaN", 4]}}, "/infer/inverse")
    assert reply.json()["outputs"][0]["data"] == ["Infinity", 0.0, "NaN", 0.25]


def test_an_empty_tensor_is_answered(asked, store: Store, trace, register: Register) -> None:
    import torch

    register("empty", trace(store.blobs, torch.nn.ReLU(), torch.zeros(3, 0)))
    reply = asked({"args": [[[], [], []]]}, "/infer/empty")
    assert reply.json()["outputs"] == [{"name": "output", "datatype": "FP32", "shape": [3, 0], "data": []}]


def test_every_reply_of_a_rejected_version_carries_the_warning(asked, net: Artifact, register: Register) -> None:
    finding = Finding(kind="nondeterministic", detail="two calls differ")
    check = net.check.model_copy(update={"verdict": Verdict.REJECTED, "findings": [finding]})
    register("unsound", net.model_copy(update={"check": check}))
    reply = asked({"args": [X, PAIR]}, "/infer/unsound")
    assert reply.status_code == 200
    assert reply.json()["warnings"][1] == "two calls differ"
    assert "rejected" in reply.headers["warning"]


def test_what_the_artifact_raises_is_the_models_fault(asked, store: Store, trace, register: Register) -> None:
    import torch

    register("embedding", trace(store.blobs, torch.nn.Embedding(4, 2), torch.tensor([1])))
    document = assert_problem(asked({"args": [[4]]}, "/infer/embedding"), 422, "graph-raised")
    assert document["fault"] == "model"
    assert "index out of range" in document["detail"]


def test_an_artifact_that_does_not_give_its_golden_answers_is_not_served(
    asked, net, store: Store, trace, register
) -> None:
    import torch

    other = trace(store.blobs, torch.nn.ReLU(), torch.zeros(2))
    register("broken", net.model_copy(update={"golden": other.golden}))
    document = assert_problem(asked({"args": [X, PAIR]}, "/infer/broken"), 502, "golden-case-failed")
    assert (document["fault"], document["held_back"]) == ("service", True)


def claimed(artifact: Artifact, claim: MethodClaim, *, is_open: bool = False) -> Artifact:
    """The artifact with what the claim says in its contract."""
    method = artifact.contract.method("forward").with_claim(claim)
    return artifact.model_copy(update={"contract": Contract(methods={"forward": method}, open=is_open)})


BATCHED = MethodClaim(
    shapes={"input": ("batch", 2)},
    fixed={"input": {"1": "model"}},
    regions=[Region(spans={"batch": [Span(low=1, high=4)]}, basis="proven")],
)
BEYOND = BATCHED.model_copy(
    update={
        "regions": [BATCHED.regions[0].model_copy(update={"beyond": {"batch": 2**24}})],
        "memory": Memory(bytes=[SizeProduct(times=16 * 1024, powers={"batch": 1})], elements=[]),
    }
)
ROW = [-2.0, 3.0]


@pytest.fixture(scope="module")
def batched(store: Store, trace, register: Register) -> Artifact:
    """Models `batched`, that takes 1 to 4 rows of two, and `open`, that takes more with a warning."""
    import torch

    artifact: Artifact = trace(store.blobs, torch.nn.ReLU(), torch.zeros(2, 2))
    register("batched", claimed(artifact, BATCHED))
    register("open", claimed(artifact, BATCHED, is_open=True))
    register("beyond", claimed(artifact, BEYOND))
    return artifact


@pytest.mark.usefixtures("batched")
@pytest.mark.parametrize("rows", [1, 2, 4])
def test_sizes_that_the_contract_takes_are_answered(asked: Asked, rows: int) -> None:
    reply = asked({"inputs": {"input": [ROW] * rows}}, "/infer/batched")

    assert "warning" not in reply.headers
    (output,) = reply.json()["outputs"]
    assert (output["shape"], output["data"]) == ([rows, 2], [0.0, 3.0] * rows)


@pytest.mark.usefixtures("batched")
def test_a_size_that_the_contract_does_not_take_is_refused_with_those_that_it_does(asked: Asked) -> None:
    document = assert_problem(asked({"args": [[ROW] * 5]}, "/infer/batched"), 422, "size-out-of-range")

    assert (document["symbol"], document["size"]) == ("batch", 5)
    assert document["allowed"] == [{"low": 1, "high": 4, "step": 1, "basis": "proven"}]
    assert document["dims"] == [{"input": "input", "dim": 0, "size": 5}]
    assert '"batch": {"low": 1, "high": 5}' in document["remedy"]


@pytest.mark.usefixtures("batched")
def test_sizes_beyond_those_that_were_called_are_answered_as_far_as_memory_allows(asked: Asked) -> None:
    (output,) = asked({"args": [[ROW] * 64]}, "/infer/beyond").json()["outputs"]
    document = assert_problem(asked({"args": [[ROW] * 65]}, "/infer/beyond"), 422, "too-much-memory")

    assert output["data"] == [0.0, 3.0] * 64
    assert (document["clause"], document["sizes"]) == ("memory", {"batch": 65})
    assert (document["needed_bytes"], document["limit_bytes"]) == (65 * 16 * 1024, MIB)


@pytest.fixture
def asked_of_called_sizes(answerer: str, context: AppContext, store: Store, torch_zygote: Zygote) -> Iterator[Asked]:
    """The reply of a service that answers only the sizes that it called itself."""
    pool = Pool(torch_zygote, store.blobs, pool_limits())
    with answering(answerer, replace(context, inference=Inference(store, pool, only_called=True)), pool) as client:
        yield asking(client)


def test_where_submitters_are_not_trusted_only_the_sizes_that_the_service_called_are_answered(
    asked: Asked, asked_of_called_sizes: Asked, batched: Artifact, register: Register
) -> None:
    method = claimed(batched, BATCHED).contract.method("forward").with_called([{"batch": 4}])
    contract = Contract(methods={"forward": method}, open=True)
    register("called", batched.model_copy(update={"contract": contract}))

    def status(asked: Asked, rows: int) -> int:
        return asked({"args": [[ROW] * rows]}, "/infer/called").status_code

    assert [status(asked, rows) for rows in (1, 2, 3, 4, 5)] == [200] * 5
    assert [status(asked_of_called_sizes, rows) for rows in (1, 2, 3, 4, 5)] == [422, 200, 422, 200, 422]
    document = assert_problem(asked_of_called_sizes({"args": [[ROW] * 3]}, "/infer/called"), 422, "size-out-of-range")
    assert "SERVED_SIZES=called" in document["remedy"]


@pytest.mark.usefixtures("batched")
def test_a_dim_that_the_model_itself_fixes_is_told_as_that(asked: Asked) -> None:
    document = assert_problem(asked({"args": [[[1.0, 2.0, 3.0]]]}, "/infer/batched"), 422, "shape-mismatch")

    assert (document["dim"], document["reason"], document["expected"]) == (1, "model", ["batch", 2])


@pytest.mark.usefixtures("batched")
def test_an_open_contract_answers_what_was_never_tried_with_a_warning(asked: Asked) -> None:
    reply = asked({"args": [[ROW] * 5]}, "/infer/open")

    assert reply.json()["outputs"][0]["data"] == [0.0, 3.0] * 5
    assert "never tried" in reply.headers["warning"]
    assert "never tried" in reply.json()["warnings"][0]
    assert "batch is 5" in reply.json()["warnings"][1]
    assert "warnings" not in asked({"args": [[ROW]]}, "/infer/open").json()


def test_an_answer_may_carry_both_warnings(asked: Asked, batched: Artifact, register: Register) -> None:
    check = batched.check.model_copy(update={"verdict": Verdict.REJECTED})
    register("unsound-and-open", claimed(batched.model_copy(update={"check": check}), BATCHED, is_open=True))

    reply = asked({"args": [[ROW] * 5]}, "/infer/unsound-and-open")

    assert [word in reply.headers["warning"] for word in ("rejected", "never tried")] == [True, True]
    assert len(reply.json()["warnings"]) == 3


def test_an_output_that_follows_an_input_has_the_datatype_that_was_sent(
    asked: Asked, batched: Artifact, register: Register
) -> None:
    claim = BATCHED.model_copy(
        update={
            "datatypes": {"input": [Datatype.FP32, Datatype.FP64, Datatype.FP16, Datatype.BF16]},
            "datatype_of": {"output": "input"},
        }
    )
    register("follows", claimed(batched, claim))

    for datatype, answered in (("FP32", 3.299999952316284), ("FP64", 3.3), ("FP16", 3.30078125), ("BF16", 3.296875)):
        sent = {"name": "input", "datatype": datatype, "shape": [1, 2], "data": [-2.0, 3.3]}
        (output,) = asked({"inputs": [sent]}, "/infer/follows").json()["outputs"]
        assert output == {"name": "output", "datatype": datatype, "shape": [1, 2], "data": [0.0, answered]}
    too_large = {**sent, "data": [1.0, 3.4e38]}
    assert (
        "BF16's range"
        in assert_problem(asked({"inputs": [too_large]}, "/infer/follows"), 422, "invalid-tensor")["detail"]
    )


def test_an_answer_of_another_datatype_than_the_contracts_is_not_handed_out(
    asked: Asked, batched: Artifact, register: Register
) -> None:
    """The contract says FP32 whatever is sent, and the artifact answers in kind."""
    claim = BATCHED.model_copy(update={"datatypes": {"input": [Datatype.FP32, Datatype.FP64]}})
    register("says-float32", claimed(batched, claim))

    sent = {"name": "input", "datatype": "FP64", "shape": [1, 2], "data": [-2.0, 3.3]}
    assert_problem(asked({"inputs": [sent]}, "/infer/says-float32"), 502, "runner-lost")


def test_values_outside_the_contract_are_refused(asked: Asked, store: Store, trace, register: Register) -> None:
    import torch

    ids = MethodClaim(shapes={}, values={"input": ValueRange(low=0, high=3, basis="tested")})
    register("ids", claimed(trace(store.blobs, torch.nn.Embedding(4, 2), torch.tensor([1, 2])), ids))

    document = assert_problem(asked({"args": [[1, 4]]}, "/infer/ids"), 422, "value-out-of-range")

    assert (document["value"], document["place"], document["allowed"]) == (4, [1], {"low": 0, "high": 3})


@pytest.fixture(scope="module")
def bucketed(store: Store, trace, register: Register) -> list[Artifact]:
    """Model `bucketed`: the length is baked into each trace, one for 2, 3 and 5; batches of 1 to 4 are taken."""
    import torch

    class Net(torch.nn.Module):
        def forward(self, x):
            return x * float(x.shape[1])

    claim = MethodClaim(
        shapes={"x": ("batch", 0)}, regions=[Region(spans={"batch": [Span(low=1, high=4)]}, basis="tested")]
    )
    artifacts = []
    for length in (2, 3, 5):
        sized = claim.model_copy(update={"shapes": {"x": ("batch", length)}, "fixed": {"x": {"1": "trace"}}})
        traced = claimed(trace(store.blobs, Net(), torch.ones(1, length)), sized)
        artifacts.append(traced.model_copy(update={"bucket": {"length": length}}))
    register("bucketed", *artifacts)
    return artifacts


@pytest.mark.usefixtures("bucketed")
@pytest.mark.parametrize("length", [2, 3, 5])
@pytest.mark.parametrize("form", ["nested", "protocol"])
def test_the_bucket_of_its_sizes_answers_a_request(asked: Asked, length: int, form: str) -> None:
    body: dict[str, Any] = {"args": [[[1.0] * length] * 3]}
    if form == "protocol":
        body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [3, length], "data": [1.0] * 3 * length}]}

    (output,) = asked(body, "/infer/bucketed").json()["outputs"]

    assert (output["shape"], set(output["data"])) == ([3, length], {float(length)})


@pytest.mark.usefixtures("bucketed")
@pytest.mark.parametrize(("batch", "length"), [(1, 4), (5, 4)])
def test_sizes_of_no_bucket_are_refused_with_those_that_there_are(asked: Asked, batch: int, length: int) -> None:
    document = assert_problem(asked({"args": [[[1.0] * length] * batch]}, "/infer/bucketed"), 422, "no-bucket")

    assert document["buckets"] == [{"length": 2}, {"length": 3}, {"length": 5}]
    assert document["actual"] == {"x": [batch, length]}


def test_a_model_shows_its_buckets(client: httpx.Client, bucketed: list[Artifact]) -> None:
    (version,) = client.get("/models/bucketed").json()["versions"]

    assert version["artifacts"] == {"cpu": bucketed[0].digest}
    assert version["buckets"] == [
        {"device": "cpu", "sizes": artifact.bucket, "digest": artifact.digest} for artifact in bucketed
    ]


REFUSED: dict[str, tuple[Any, int, str]] = {
    "no body": (b"", 400, "malformed-json"),
    "half an object": (b'{"args": [', 400, "malformed-json"),
    "NaN": (b'{"args": [[[NaN, 2], [3, 4]]]}', 400, "malformed-json"),
    "an infinity": (b'{"args": [[[1e999, 2], [3, 4]]]}', 400, "malformed-json"),
    "no UTF-8": (b'{"id": "\xff"}', 400, "malformed-json"),
    "half a surrogate": (b'{"id": "\\ud800"}', 400, "malformed-json"),
    "nested 10,000 deep": (b"[" * 10_000 + b"]" * 10_000, 400, "malformed-json"),
    "nested 200 deep": (b'{"args":' + b"[" * 200 + b"]" * 200 + b"}", 400, "malformed-json"),
    "more than is taken": (b" " * (REQUEST_MAX_BYTES + 1), 413, "payload-too-large"),
    "a list": ([], 422, "invalid-request"),
    "null": (b"null", 422, "invalid-request"),
    "no form": ({}, 422, "invalid-request"),
    "the member of another service": ({"instances": [X]}, 422, "invalid-request"),
    "two forms": ({"inputs": [TENSOR], "args": [X]}, 422, "invalid-request"),
    "a model in the body as well": ({"model": "net", "args": [X, PAIR]}, 422, "invalid-request"),
    "an unknown output": ({"args": [X, PAIR], "outputs": [{"name": "output"}]}, 422, "invalid-request"),
    "a number for an id": ({"args": [X, PAIR], "id": 1}, 422, "invalid-request"),
    "a missing input": ({"inputs": [TENSOR, IDS]}, 422, "missing-input"),
    "a missing argument": ({"args": [X]}, 422, "missing-input"),
    "nothing at all": ({"inputs": {}}, 422, "missing-input"),
    "an unknown input": ({"inputs": {"x": X, "pair": PAIR, "z": 1}}, 422, "unexpected-input"),
    "one argument more": ({"args": [X, PAIR, "fast", 1]}, 422, "unexpected-input"),
    "an unknown keyword": ({"args": [X, PAIR], "kwargs": {"modus": "fast"}}, 422, "unexpected-input"),
    "an input sent twice": ({"inputs": [TENSOR, TENSOR, IDS, MASK]}, 422, "unexpected-input"),
    "another datatype": ({"inputs": [TENSOR | {"datatype": "FP64"}, IDS, MASK]}, 422, "datatype-mismatch"),
    "bytes": ({"inputs": [TENSOR | {"datatype": "BYTES"}, IDS, MASK]}, 422, "datatype-mismatch"),
    "another shape": ({"inputs": [TENSOR | {"shape": [4]}, IDS, MASK]}, 422, "shape-mismatch"),
    "another batch": ({"args": [[*X, [5.0, 6.0]], PAIR]}, 422, "shape-mismatch"),
    "ragged": ({"args": [[[1.0, 2.0], [3.0]], PAIR]}, 422, "shape-mismatch"),
    "too few values": ({"inputs": [TENSOR | {"data": [1.0]}, IDS, MASK]}, 422, "invalid-tensor"),
    "fractions for integers": ({"args": [X, [[1, 2, 2.5], [[True, True]]]]}, 422, "invalid-tensor"),
    "text for numbers": ({"args": [[["1", "2"], ["3", "4"]], PAIR]}, 422, "invalid-tensor"),
    "a shape of 2^60": ({"inputs": [TENSOR | {"shape": [2**60]}, IDS, MASK]}, 422, "invalid-tensor"),
    "a shape below zero": ({"inputs": [TENSOR | {"shape": [-2, -2]}, IDS, MASK]}, 422, "invalid-tensor"),
    "a tensor for a tuple": ({"args": [X, {"data": [1]}]}, 422, "structure-mismatch"),
    "a tuple of three": ({"args": [X, [*PAIR, 1]]}, 422, "structure-mismatch"),
    "another baked value": ({"args": [X, PAIR, "slow"]}, 422, "baked-argument"),
}


@pytest.mark.parametrize(("body", "status", "code"), REFUSED.values(), ids=REFUSED.keys())
def test_a_bad_body_is_refused_and_asks_no_runner(
    store: Store, engine: EmbeddedEngine, state_dir: Path, net: Artifact, body: Any, status: int, code: str
) -> None:
    pool = idle_pool(store)
    context = replace(make_context(store, engine, state_dir), inference=Inference(store, pool))
    asked = asking(local(create_app(context)))
    assert_problem(asked(body, headers={"content-type": "application/json"}), status, code)
    assert pool.runners == {}


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/infer/nets", 404, "model-not-found"),
        ("/infer/net:2", 404, "version-not-found"),
        ("/infer/net@prod", 404, "alias-not-found"),
        ("/infer/net?method=backward", 404, "method-not-found"),
        ("/infer/net?device=tpu", 422, "invalid-request"),
        ("/infer/net:0", 422, "invalid-name"),
        ("/infer/net:latest", 422, "invalid-name"),
        ("/infer/net@", 422, "invalid-name"),
        ("/infer/..%2fnet", 404, "not-found"),
        ("/infer/nét", 422, "invalid-name"),
        ("/infer/", 404, "not-found"),
        ("/infer", 422, "invalid-request"),
    ],
)
def test_what_is_not_there_is_told(asked, path: str, status: int, code: str) -> None:
    assert_problem(asked({"args": [X, PAIR]}, path), status, code)


def test_lists_of_unequal_lengths_are_to_be_made_even(asked) -> None:
    document = assert_problem(asked({"args": [[[1.0, 2.0], [3.0]], PAIR]}), 422, "shape-mismatch")

    assert document["actual"] == "ragged"
    assert document["remedy"] == "Give all lists of one level the same length, for instance by padding them."


def test_a_refusal_tells_what_was_expected(asked) -> None:
    document = assert_problem(asked({"inputs": {"x": [[1.0, 2.0, 3.0]]}}), 422, "shape-mismatch")
    assert (document["input"], document["expected"], document["actual"]) == ("x", [2, 2], [1, 3])
    assert document["basis"] == "observed"


def test_malformed_json_is_pointed_at(asked) -> None:
    document = assert_problem(asked(b'{\n"args": [NaN]}'), 400, "malformed-json")
    assert (document["line"], document["column"]) == (2, 10)


def test_only_json_is_taken(asked) -> None:
    form = asked(b"x=1", headers={"content-type": "application/x-www-form-urlencoded"})
    assert_problem(form, 415, "unsupported-media-type")


def test_a_body_that_is_declared_too_long_is_not_waited_for(context: AppContext, net: Artifact) -> None:
    declared = asking(local(create_app(context)))(b"{}", headers={"content-length": str(2**31)})
    assert_problem(declared, 413, "payload-too-large")


def test_the_documented_examples_have_the_documented_forms(client: httpx.Client) -> None:
    document = client.get("/openapi.json").json()
    for path, members in (("/infer/{model}", set()), ("/infer", {"model"})):
        content = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]
        examples = [example["value"] for example in content["examples"].values()]
        assert len(examples) == len(content["schema"]["anyOf"]) == 3
        assert all(example.keys() - {"inputs", "args"} == members for example in examples)


def test_a_long_answer_is_whole(client: httpx.Client, store: Store, trace, register: Register) -> None:
    """It is written in pieces."""
    import torch

    class Net(torch.nn.Module):
        def forward(self, x):
            return x.repeat(50)

    register("long", trace(store.blobs, Net(), torch.zeros(1000)))
    values = [number / 8 for number in range(1000)]

    reply = asking(client)({"args": [values]}, "/infer/long")

    assert reply.json()["outputs"][0]["data"] == values * 50


def test_a_tenant_with_nothing_unread_may_have_one_answer_that_is_larger_than_its_limit(
    answerer: str, context: AppContext, store: Store, torch_zygote: Zygote, trace, register: Register
) -> None:
    import torch

    class Net(torch.nn.Module):
        def forward(self, x):
            return x.repeat(100)

    register("larger", trace(store.blobs, Net(), torch.zeros(1000)))
    pool = Pool(torch_zygote, store.blobs, pool_limits())
    unread = HeldBytes(HeldLimits(max_bytes=100_000, tenant_max_bytes=100_000), TooMuchUnread)
    changed = replace(context, inference=Inference(store, pool), unread=unread)

    with answering(answerer, changed, pool) as client:
        reply = asking(client)({"args": [[0.5] * 1000]}, "/infer/larger")

    assert reply.json()["outputs"][0]["data"] == [0.5] * 100_000


def test_the_artifact_of_the_device_answers_and_the_one_for_the_processor_where_none_is_named(
    asked: Asked, register: Register, net: Artifact
) -> None:
    register("both", net.model_copy(update={"device": "cuda"}), net)
    body = {"args": [X, PAIR]}

    for path in ("/infer/both", "/infer/both?device=cpu"):
        assert asked(body, path).json()["outputs"][0]["data"] == [2, 3, 4, 5]
    refused = assert_problem(asked(body, "/infer/both?device=cuda"), 503, "device-unavailable")
    assert refused["devices"] == ["cpu"]


def test_a_version_of_one_device_is_asked_there_unless_another_is_named(
    asked: Asked, register: Register, net: Artifact
) -> None:
    register("elsewhere", net.model_copy(update={"device": "cuda"}))
    body = {"args": [X, PAIR]}

    assert_problem(asked(body, "/infer/elsewhere"), 503, "device-unavailable")
    assert assert_problem(asked(body, "/infer/elsewhere?device=cpu"), 404, "artifact-not-found")["devices"] == ["cuda"]
    assert assert_problem(asked(body, "/infer/net?device=cuda"), 404, "artifact-not-found")["devices"] == ["cpu"]


def test_inputs_of_another_rank_are_answered_where_the_contract_has_them(
    client: httpx.Client, store: Store, trace, register: Register
) -> None:
    import torch

    made = trace(store.blobs, torch.nn.Hardtanh(-9.0, 9.0), torch.zeros(2, 2))
    method = made.contract.method("forward")
    rows = [TensorSpec(name=one.name, datatype=one.datatype, shape=(2,)) for one in method.inputs]
    inputs = [InputSpec.from_example(one) for one in rows]
    outputs = [one.model_copy(update={"shape": (2,)}) for one in method.outputs]
    ranks = {"forward": [OtherRanks(inputs=inputs, outputs=outputs)]}
    register("ranks", made.model_copy(update={"contract": made.contract.with_other_ranks(ranks)}))
    asked = asking(client)

    answers = [asked({"args": [data]}, "/infer/ranks").json()["outputs"][0] for data in (X, [3.0, 40.0])]
    refused = asked({"args": [[X]]}, "/infer/ranks")

    assert [(one["shape"], one["data"]) for one in answers] == [([2, 2], [1.0, 2.0, 3.0, 4.0]), ([2], [3.0, 9.0])]
    assert_problem(refused, 422, "shape-mismatch")
    assert "[2, 2] or [2]" in refused.json()["detail"]


@pytest.mark.parametrize(("damaged", "slope"), [("archive", 0.25), ("golden", 0.5)])
def test_a_damaged_artifact_never_answers(
    store: Store, register: Register, trace: Trace, asked: Asked, damaged: str, slope: float
) -> None:
    import torch

    made = trace(store.blobs, torch.nn.LeakyReLU(slope), torch.ones(2))
    register(f"damaged-{damaged}", made)
    blob = getattr(made, damaged)
    with store.blobs.open(blob.digest) as file:
        content = file.read()
    damage(store.blobs, blob.digest)

    document = assert_problem(asked({"args": [[1.0, -1.0]]}, f"/infer/damaged-{damaged}"), 500, "content-damaged")
    assert (document["digest"], document["fault"]) == (blob.digest, "service")

    keep(store.blobs, content)
    (output,) = asked({"args": [[1.0, -1.0]]}, f"/infer/damaged-{damaged}").json()["outputs"]
    assert output["data"] == [1.0, -slope]
