"""The Open Inference Protocol, spoken by Triton's own clients as they come from PyPI, and by hand where they cannot."""

import asyncio
import gzip
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.http as triton
import tritonclient.http.aio as triton_aio
from tritonclient.utils import InferenceServerException

from service.sandbox.zygote import Zygote
from service.storage.database import Store
from tests.conftest import PATIENCE_S, NewStore
from tests.service.api.conftest import (
    REQUEST_MAX_BYTES,
    Register,
    assert_problem,
    serving_runners,
)
from tracehouse.artifact.manifest import Artifact
from tracehouse.contract.contract import Contract, MethodClaim
from tracehouse.contract.regions import Region, Span
from tracehouse.tensors.tensor import Datatype, TensorSpec

X = np.array([[1.0, -2.0], [3.0, 4.0]], np.float32)
LENGTH = "Inference-Header-Content-Length"


@pytest.fixture(scope="module", params=["app", "fast path"])
def answerer(request: pytest.FixtureRequest) -> str:
    """Who answers what the fast path can. The fast path leaves the first request for a model to the app."""
    return str(request.param)


@pytest.fixture(scope="module")
def store(answerer: str, new_store: NewStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    store = new_store(tmp_path_factory.mktemp("oip"))
    yield store
    store.close()


@pytest.fixture(scope="module")
def address(
    answerer: str, store: Store, torch_zygote: Zygote, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A service that listens, with the models of this file."""
    with serving_runners(store, torch_zygote, tmp_path_factory.mktemp("state"), answerer=answerer) as address:
        yield address


@pytest.fixture(scope="module")
def models(store: Store, trace: Any, register: Register) -> None:
    """`relu` for 1 to 40,000 rows of two, `many` with nested outputs of several datatypes, and `draws`."""
    import torch

    class Many(torch.nn.Module):
        def forward(self, x, ids, mask):
            return (x.sum(1), ids * 2), mask.any(), x.half(), x.bfloat16()

    class Draws(torch.nn.Module):
        def forward(self, x):
            return torch.randn_like(x)

    claim = MethodClaim(
        shapes={"input": ("batch", 2)},
        fixed={"input": {"1": "model"}},
        regions=[Region(spans={"batch": [Span(low=0, high=40_000)]}, basis="proven")],
    )
    relu: Artifact = trace(store.blobs, torch.nn.ReLU(), torch.zeros(2, 2))
    answers = [
        ({"batch": rows}, [TensorSpec(name="output", datatype=Datatype.FP32, shape=(rows, 2))]) for rows in (3, 5)
    ]
    method = relu.contract.method("forward").with_claim(claim, answers)
    register("relu", relu.model_copy(update={"contract": Contract(methods={"forward": method})}))
    register(
        "many", trace(store.blobs, Many(), torch.zeros(2, 2), torch.zeros(3, dtype=torch.int64), torch.ones(2) > 0)
    )
    register("draws", trace(store.blobs, Draws(), torch.zeros(2, 2), seed=1))


@pytest.fixture
def client(address: str, models: None) -> Iterator[triton.InferenceServerClient]:
    client = triton.InferenceServerClient(address, network_timeout=PATIENCE_S, connection_timeout=PATIENCE_S)
    yield client
    client.close()


@pytest.fixture
def http(address: str, models: None) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"http://{address}", timeout=PATIENCE_S, verify=False) as client:
        yield client


def given(x: np.ndarray, name: str = "input", *, binary: bool = True) -> Any:
    datatypes = {"float32": "FP32", "int64": "INT64", "bool": "BOOL"}
    tensor = triton.InferInput(name, list(x.shape), datatypes[str(x.dtype)])
    tensor.set_data_from_numpy(x, binary_data=binary)
    return tensor


def test_the_server_is_alive_and_describes_itself(client: triton.InferenceServerClient) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    described = client.get_server_metadata()
    assert described["name"] == "tracehouse"
    assert {"binary_tensor_data", "statistics"} <= {*described["extensions"]}


def test_metadata_has_minus_one_only_where_the_contract_takes_several_sizes(
    client: triton.InferenceServerClient,
) -> None:
    relu, many = client.get_model_metadata("relu"), client.get_model_metadata("many", "1")

    assert relu["inputs"] == [{"name": "input", "datatype": "FP32", "shape": [-1, 2]}]
    assert relu["outputs"][0]["shape"] == [-1, 2]
    assert relu["versions"] == ["1"]
    assert [(one["name"], one["datatype"], one["shape"]) for one in many["outputs"]] == [
        ("output.0.0", "FP32", [2]),
        ("output.0.1", "INT64", [3]),
        ("output.1", "BOOL", []),
        ("output.2", "FP16", [2, 2]),
        ("output.3", "BF16", [2, 2]),
    ]
    config = client.get_model_config("relu")
    assert (config["max_batch_size"], config["input"][0]["data_type"]) == (0, "TYPE_FP32")


@pytest.mark.parametrize("binary_out", [True, False])
@pytest.mark.parametrize("binary_in", [True, False])
@pytest.mark.parametrize("packed", [None, "gzip", "deflate"])
def test_every_form_gives_the_same_answer(
    client: triton.InferenceServerClient, binary_in: bool, binary_out: bool, packed: str | None
) -> None:
    outputs = [triton.InferRequestedOutput("output", binary_data=binary_out)]

    found = client.infer(
        "relu", [given(X, binary=binary_in)], outputs=outputs, request_id="seven",
        request_compression_algorithm=packed, response_compression_algorithm=packed,
    )  # fmt: skip

    assert np.array_equal(found.as_numpy("output"), np.maximum(X, 0))
    answer = found.get_response()
    assert (answer["id"], answer["model_name"], answer["model_version"]) == ("seven", "relu", "1")


def test_all_outputs_come_as_bytes_where_none_is_named(client: triton.InferenceServerClient) -> None:
    ids, mask = np.array([1, 2, 3]), np.array([False, True])

    found = client.infer("many", [given(X, "x"), given(ids, "ids"), given(mask, "mask", binary=False)])

    assert np.array_equal(found.as_numpy("output.0.0"), X.sum(1))
    assert np.array_equal(found.as_numpy("output.0.1"), ids * 2)
    assert found.as_numpy("output.1").item() is True
    assert np.array_equal(found.as_numpy("output.2"), X.astype(np.float16))
    assert np.array_equal(found.as_numpy("output.3"), X)  # these numbers are exact in bfloat16
    assert [one["name"] for one in found.get_response()["outputs"]][:2] == ["output.0.0", "output.0.1"]


def test_an_empty_tensor_is_answered(client: triton.InferenceServerClient) -> None:
    found = client.infer("relu", [given(np.zeros((0, 2), np.float32))])

    assert found.as_numpy("output").shape == (0, 2)


def test_a_batch_that_the_contract_takes_can_be_sent(client: triton.InferenceServerClient) -> None:
    rows = np.random.default_rng(0).standard_normal((40_000, 2)).astype(np.float32)
    assert rows.nbytes > REQUEST_MAX_BYTES

    assert np.array_equal(client.infer("relu", [given(rows)]).as_numpy("output"), np.maximum(rows, 0))


def test_the_asyncio_client_is_answered_too(address: str, models: None) -> None:
    async def ask() -> tuple[bool, Any, Any]:
        async with triton_aio.InferenceServerClient(address) as client:
            ready = await client.is_model_ready("relu")
            binary = await client.infer("relu", [given(X)])
            text = await client.infer(
                "relu", [given(X, binary=False)], outputs=[triton_aio.InferRequestedOutput("output", binary_data=False)]
            )
            return ready, binary.as_numpy("output"), text.as_numpy("output")

    ready, *answers = asyncio.run(ask())

    assert ready
    for answer in answers:
        assert np.array_equal(answer, np.maximum(X, 0))


@pytest.mark.parametrize(
    ("model", "version", "inputs", "says"),
    [
        ("nowhere", "", [given(X)], "no model"),
        ("relu", "7", [given(X)], "no such version"),
        ("relu", "", [], "'input' is missing"),
        ("relu", "", [given(X), given(X, "more")], "no input 'more'"),
        ("relu", "", [given(np.zeros((2, 3), np.float32))], "not [batch, 2]"),
        ("relu", "", [given(np.zeros((40_001, 2), np.float32))], "batch is 40001"),
        ("relu", "", [given(np.zeros((2, 2), np.int64))], "INT64"),
    ],
)
def test_what_is_refused_is_shown_by_the_client(
    client: triton.InferenceServerClient, model: str, version: str, inputs: list[Any], says: str
) -> None:
    with pytest.raises(InferenceServerException, match=says.replace("[", r"\[").replace("]", r"\]")):
        client.infer(model, inputs, model_version=version)


def test_models_are_listed_loaded_counted_and_unloaded(client: triton.InferenceServerClient) -> None:
    index = client.get_model_repository_index()
    assert {(one["name"], one["version"], one["state"]) for one in index} == {
        (name, "1", "READY") for name in ("relu", "many", "draws")
    }
    client.load_model("relu")
    before = client.get_inference_statistics("relu")["model_stats"][0]
    client.infer("relu", [given(X)])
    with pytest.raises(InferenceServerException):
        client.infer("relu", [given(np.zeros((2, 3), np.float32))])
    [after] = client.get_inference_statistics("relu", "1")["model_stats"]
    grown = {
        kind: after["inference_stats"][kind]["count"] - before["inference_stats"][kind]["count"]
        for kind in ("success", "fail", "queue", "compute_input", "compute_infer", "compute_output")
    }
    assert grown == {"success": 1, "fail": 1, "queue": 1, "compute_input": 1, "compute_infer": 1, "compute_output": 1}
    assert after["last_inference"] > 0
    assert {one["name"] for one in client.get_inference_statistics()["model_stats"]} == {"relu", "many", "draws"}
    client.unload_model("relu")
    assert np.array_equal(client.infer("relu", [given(X)]).as_numpy("output"), np.maximum(X, 0))  # it starts again


def test_a_seed_and_a_timeout_are_taken(client: triton.InferenceServerClient) -> None:
    once, again, other = (
        client.infer("draws", [given(X, "x")], parameters={"seed": seed}).as_numpy("output") for seed in (7, 7, 8)
    )

    assert np.array_equal(once, again)
    assert not np.array_equal(once, other)
    client.unload_model("draws")  # starting a process takes longer than a microsecond
    with pytest.raises(InferenceServerException, match="no answer came within"):
        client.infer("draws", [given(X, "x")], timeout=1)


@pytest.mark.parametrize(
    "ask",
    [
        lambda client: client.infer("relu", [given(X)], sequence_id=5),
        lambda client: client.infer("relu", [given(X)], outputs=[triton.InferRequestedOutput("output", class_count=1)]),
        lambda client: client.get_system_shared_memory_status(),
        lambda client: client.load_model("relu", config='{"max_batch_size": 8}'),
        lambda client: client.get_log_settings(),
        lambda client: client.get_trace_settings("relu"),
    ],
    ids=["sequence", "classification", "shared memory", "config", "log", "trace"],
)
def test_what_the_service_does_not_have_it_says(
    client: triton.InferenceServerClient, ask: Callable[[Any], object]
) -> None:
    with pytest.raises(InferenceServerException) as refused:
        ask(client)

    assert refused.value.status() in ("501", None)
    assert refused.value.message()


def infer_bytes(http: httpx.Client, head: bytes, tail: bytes = b"", **headers: str) -> httpx.Response:
    return http.post("/v2/models/relu/infer", content=head + tail, headers={LENGTH: str(len(head)), **headers})


HEAD = b'{"inputs":[{"name":"input","datatype":"FP32","shape":[1,2],"parameters":{"binary_data_size":8}}]}'
ROW = struct.pack("<2f", -1.0, 2.0)


def test_a_body_may_be_one_tensor_alone(http: httpx.Client) -> None:
    reply = http.post("/v2/models/relu/infer", content=ROW * 3, headers={LENGTH: "0"})

    length = int(reply.headers[LENGTH])
    assert np.frombuffer(reply.content[length:], np.float32).tolist() == [0.0, 2.0] * 3


@pytest.mark.parametrize(
    ("head", "tail", "code"),
    [
        (HEAD, ROW[:-1], "invalid-tensor"),
        (HEAD, ROW + b"\0", "invalid-tensor"),
        (HEAD.replace(b":8}", b":4}"), ROW[:4], "invalid-tensor"),
        (HEAD.replace(b":8}", b":-8}"), ROW, "invalid-request"),
        (HEAD.replace(b":8}", b':"8"}'), ROW, "invalid-request"),
        (HEAD.replace(b'"shape":[1,2],', b""), ROW, "invalid-tensor"),
        (HEAD.replace(b'"parameters"', b'"data":[1,2],"parameters"'), ROW, "invalid-tensor"),
        (HEAD.replace(b'{"inputs"', b'{"parameters":{"headers":1},"inputs"'), ROW, "invalid-request"),
        (b'{"parameters":{}}', b"", "invalid-request"),
        (b"[]", b"", "invalid-request"),
        (b"{", b"", "malformed-json"),
    ],
)
def test_a_body_that_is_wrong_is_refused_with_an_error_that_clients_show(
    http: httpx.Client, head: bytes, tail: bytes, code: str
) -> None:
    reply = infer_bytes(http, head, tail)

    assert reply.json()["code"] == code
    assert isinstance(reply.json()["error"], str)
    assert reply.status_code in (400, 422)


@pytest.mark.parametrize("length", ["-1", "1e2", "999999", "x", "9" * 40])
def test_a_length_that_no_body_has_is_refused(http: httpx.Client, length: str) -> None:
    reply = http.post("/v2/models/relu/infer", content=HEAD + ROW, headers={LENGTH: length})

    assert_problem(reply, 400, "malformed-header")


@pytest.mark.parametrize(
    ("members", "says"), [({"id": "x" * 1001}, "/id"), ({"parameters": {"method": "é" * 201}}, "/parameters/method")]
)
def test_a_text_that_a_reply_would_repeat_is_bounded(http: httpx.Client, members: dict[str, Any], says: str) -> None:
    reply = http.post("/v2/models/relu/infer", json={"inputs": [], **members})

    assert_problem(reply, 422, "invalid-request")
    assert reply.json()["errors"][0]["pointer"] == says
    assert len(reply.content) < 4000


def test_the_json_of_a_body_with_bytes_has_the_limit_of_json(http: httpx.Client) -> None:
    head = HEAD[:-1] + b" " * REQUEST_MAX_BYTES + b"}"

    assert_problem(infer_bytes(http, head, ROW), 413, "payload-too-large")


@pytest.mark.parametrize("packed", [gzip.compress(bytes(8 * 20_000)), zlib.compress(bytes(8 * 20_000), 0)])
def test_a_packed_body_has_the_limit_of_json(http: httpx.Client, packed: bytes) -> None:
    """As bytes that are not packed, the model takes as many."""
    encoding = "gzip" if packed.startswith(b"\x1f\x8b") else "deflate"
    reply = http.post("/v2/models/relu/infer", content=packed, headers={"Content-Encoding": encoding, LENGTH: "0"})
    plain = http.post("/v2/models/relu/infer", content=bytes(8 * 20_000), headers={LENGTH: "0"})

    assert plain.status_code == 200
    assert_problem(reply, 413, "payload-too-large")


def test_what_unpacks_to_more_than_may_be_sent_is_refused(http: httpx.Client) -> None:
    bomb = gzip.compress(b" " * 100 * REQUEST_MAX_BYTES)
    assert len(bomb) < REQUEST_MAX_BYTES
    reply = http.post("/v2/models/relu/infer", content=bomb, headers={"Content-Encoding": "gzip"})

    assert_problem(reply, 413, "payload-too-large")


@pytest.mark.parametrize(
    ("body", "encoding", "status", "code"),
    [
        (b"no gzip", "gzip", 415, "unsupported-media-type"),
        (gzip.compress(HEAD + ROW)[:-4], "gzip", 400, "upload-truncated"),
        (gzip.compress(HEAD + ROW) * 2, "gzip", 415, "unsupported-media-type"),
        (zlib.compress(HEAD + ROW), "br", 415, "unsupported-media-type"),
    ],
)
def test_a_packed_body_that_cannot_be_unpacked_is_refused(
    http: httpx.Client, body: bytes, encoding: str, status: int, code: str
) -> None:
    reply = http.post(
        "/v2/models/relu/infer", content=body, headers={"Content-Encoding": encoding, LENGTH: str(len(HEAD))}
    )

    assert_problem(reply, status, code)


def test_every_reply_that_is_no_success_has_an_error_that_clients_show(http: httpx.Client) -> None:
    for reply in (http.get("/v2/nothing/like/this"), http.delete("/v2"), http.get("/v2/models/relu/infer")):
        assert reply.status_code in (404, 405)
        assert isinstance(reply.json()["error"], str)


def test_a_true_byte_is_true_whichever_it_is(http: httpx.Client) -> None:
    head = (
        b'{"inputs":[{"name":"x","datatype":"FP32","shape":[2,2],"data":[1,2,3,4]},'
        b'{"name":"ids","datatype":"INT64","shape":[3],"data":[1,2,3]},'
        b'{"name":"mask","datatype":"BOOL","shape":[2],"parameters":{"binary_data_size":2}}],'
        b'"outputs":[{"name":"output.1"}]}'
    )
    reply = http.post("/v2/models/many/infer", content=head + b"\0\x02", headers={LENGTH: str(len(head))})

    assert reply.json()["outputs"] == [{"name": "output.1", "datatype": Datatype.BOOL, "shape": [], "data": [True]}]


def test_a_version_and_an_alias_are_named_in_the_path(http: httpx.Client, store: Store) -> None:
    assert http.get("/v2/models/relu/versions/1/ready").json() == {"name": "relu", "ready": True}
    assert_problem(http.get("/v2/models/relu/versions/2/ready"), 404, "version-not-found")
    assert_problem(http.get("/v2/models/relu@prod/ready"), 404, "alias-not-found")
    assert_problem(http.get("/v2/models/relu/versions/x/ready"), 422, "invalid-name")
