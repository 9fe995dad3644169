"""The Open Inference Protocol over gRPC, spoken by Triton's own clients as they come from PyPI, to a whole service.

The same models are asked over HTTP by its other official clients, and must answer the same.
"""

import asyncio
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from time import sleep
from typing import Any

import grpc
import ml_dtypes
import numpy as np
import pytest
import tritonclient.grpc as triton
import tritonclient.grpc.aio as triton_aio
import tritonclient.http as triton_http
import tritonclient.http.aio as triton_http_aio
from tritonclient.grpc import service_pb2 as messages
from tritonclient.grpc import service_pb2_grpc as stubs
from tritonclient.utils import InferenceServerException

from tests.acceptance.conftest import ANSWER_S, Service
from tests.acceptance.grpc_service import (
    CALLED_PER_MINUTE,
    client,
    held,
    keys,
    logged,
    owner,
    random,
    scrape,
    serve,
    state,
    wait_for,
)

__all__ = ["client", "held", "keys", "owner", "state"]  # the fixtures

SOURCE = """
import torch

class Relu(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)

class Many(torch.nn.Module):
    def forward(self, x, ids, mask):
        return (x.sum(1), ids * 2), mask.any(), x.half(), x.bfloat16()

class Grows(torch.nn.Module):
    def forward(self, x):
        return torch.cat([x, x], 1)

class Draws(torch.nn.Module):
    def forward(self, x):
        return torch.randn_like(x)
"""
X = np.array([[1, -2], [3, 4]], np.float32)
IDS, MASK = np.array([1, 2, 3]), np.array([False, True])
DATATYPES = {"float32": "FP32", "float64": "FP64", "int64": "INT64", "bool": "BOOL", "bfloat16": "BF16"}
MESSAGE_MAX_BYTES = 4 * 2**20
REQUEST_MAX_BYTES = 2**20
TENANT_CALLS_MAX = 8
# An honest client on a busy machine must not take so long to send a message.
MESSAGE_WAIT_S = 10

Code = grpc.StatusCode


MODELS = {
    "relu": ("Relu", [random("FP32", 2, 2)]),
    "many": ("Many", [random("FP32", 2, 2), random("INT64", 3), random("BOOL", 2)]),
    "draws": ("Draws", [random("FP32", 2, 2)]),
    "grows": ("Grows", [random("FP32", 2, 2)]),
    "bfloat": ("Relu", [random("BF16", 2, 2)]),
}


@pytest.fixture(scope="module")
def service(state: Path, keys: dict[str, str]) -> Iterator[Service]:
    """A service with gRPC and the models of this file, which belong to `owner`'s tenant."""
    with serve(
        state,
        keys,
        SOURCE,
        MODELS,
        GRPC_MESSAGE_MAX_BYTES=str(MESSAGE_MAX_BYTES),
        REQUEST_MAX_BYTES=str(REQUEST_MAX_BYTES),
        ARRIVING_MAX_BYTES=str(4 * MESSAGE_MAX_BYTES),
        TENANT_ARRIVING_MAX_BYTES=str(2 * MESSAGE_MAX_BYTES),
        REQUEST_IDLE_S=str(MESSAGE_WAIT_S),
        TENANT_CONNECTIONS_MAX=str(TENANT_CALLS_MAX),
    ) as running:
        yield running


@pytest.fixture
def channel(service: Service) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(service.grpc_address, options=[("grpc.max_send_message_length", -1)]) as channel:
        yield channel


@pytest.fixture
def stub(channel: grpc.Channel) -> stubs.GRPCInferenceServiceStub:
    return stubs.GRPCInferenceServiceStub(channel)


Given = Callable[[str, np.ndarray], Any]


def given(name: str, x: np.ndarray) -> triton.InferInput:
    tensor = triton.InferInput(name, list(x.shape), DATATYPES[str(x.dtype)])
    tensor.set_data_from_numpy(x)
    return tensor


def given_over_http(name: str, x: np.ndarray) -> triton_http.InferInput:
    tensor = triton_http.InferInput(name, list(x.shape), DATATYPES[str(x.dtype)])
    tensor.set_data_from_numpy(x, binary_data=True)
    return tensor


def inputs_of_many(make: Given = given) -> list[Any]:
    return [make("x", X), make("ids", IDS), make("mask", MASK)]


def assert_many(result: Any) -> None:
    """Assert that these are the outputs of `many`, each with its datatype."""
    np.testing.assert_array_equal(result.as_numpy("output.0.0"), X.sum(1))
    np.testing.assert_array_equal(result.as_numpy("output.0.1"), IDS * 2)
    assert result.as_numpy("output.0.1").dtype == np.int64
    assert result.as_numpy("output.1") == np.array(True)
    assert result.as_numpy("output.2").dtype == np.float16
    np.testing.assert_array_equal(result.as_numpy("output.2"), X)
    np.testing.assert_array_equal(result.as_numpy("output.3").astype(np.float32), X)


def typed(field: str, values: list[Any], datatype: str = "FP32", shape: tuple[int, ...] = (2, 2)) -> Any:
    """A request for `relu` with its values in a typed field."""
    request = messages.ModelInferRequest(model_name="relu")
    tensor = request.inputs.add(name="x", datatype=datatype, shape=shape)
    getattr(tensor.contents, field).extend(values)
    return request


def raw(*contents: bytes, shape: tuple[int, ...] = (2, 2), **members: Any) -> Any:
    """A request for `relu` with raw bytes."""
    request = messages.ModelInferRequest(model_name="relu", raw_input_contents=contents, **members)
    request.inputs.add(name="x", datatype="FP32", shape=shape)
    return request


INFER = "/inference.GRPCInferenceService/ModelInfer"


def problem_of(ended: Any) -> dict[str, Any]:
    """The problem document beside the status of a call."""
    problem: dict[str, Any] = json.loads(dict(ended.trailing_metadata())["problem"])
    return problem


def refused(call: Callable[[], object]) -> tuple[Code, dict[str, Any]]:
    """The status that a call ends with, and the problem document beside it."""
    with pytest.raises(grpc.RpcError) as raised:
        call()
    error: Any = raised.value
    problem = problem_of(error)
    assert problem["detail"] in error.details()
    assert problem.get("remedy", "") in error.details(), "who reads the details alone would not know what to do"
    return error.code(), problem


# The protocol's methods.


def test_the_server_describes_itself_to_anybody(client: triton.InferenceServerClient) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    described = client.get_server_metadata()
    assert described.name == "tracehouse"
    assert {"model_repository", "statistics"} <= {*described.extensions}


def test_a_model_is_described_as_over_http(
    service: Service, client: triton.InferenceServerClient, owner: dict[str, str]
) -> None:
    assert client.is_model_ready("many", headers=owner)
    with service.client() as http:
        for path, asked in (("", client.get_model_metadata), ("/config", client.get_model_config)):
            over_http = http.get(f"/v2/models/many{path}", headers=owner).json()
            over_grpc = asked("many", headers=owner, as_json=True)
            described = over_grpc.get("config", over_grpc)
            assert described["name"] == over_http["name"]
            for inputs in ("inputs", "outputs", "input", "output"):
                found = [[one["name"], one.get("datatype") or one["data_type"]] for one in described.get(inputs, [])]
                assert found == [
                    [one["name"], one.get("datatype") or one["data_type"]] for one in over_http.get(inputs, [])
                ]
    assert [*client.get_model_metadata("relu", "1", headers=owner).inputs[0].shape] == [-1, -1]


def test_every_datatype_and_nested_outputs_come_back(
    client: triton.InferenceServerClient, owner: dict[str, str]
) -> None:
    assert_many(client.infer("many", inputs_of_many(), headers=owner))
    bfloat = client.infer("bfloat", [given("x", X.astype(ml_dtypes.bfloat16))], headers=owner)
    np.testing.assert_array_equal(bfloat.as_numpy("output").astype(np.float32), np.maximum(X, 0))


def test_http_and_grpc_give_the_same_answer(
    service: Service, client: triton.InferenceServerClient, owner: dict[str, str]
) -> None:
    with closing(triton_http.InferenceServerClient(service.address.removeprefix("http://"))) as over_http:
        assert_many(over_http.infer("many", inputs_of_many(given_over_http), headers={**owner}))
        drawn = [
            each.infer("draws", [make("x", X)], headers={**owner}, parameters={"seed": 7}).as_numpy("output")
            for each, make in ((client, given), (over_http, given_over_http))
        ]
    np.testing.assert_array_equal(*drawn)


def test_the_asyncio_clients_are_answered_too(service: Service, owner: dict[str, str]) -> None:
    async def ask() -> None:
        async with triton_aio.InferenceServerClient(service.grpc_address) as over_grpc:
            assert await over_grpc.is_server_ready()
            assert_many(await over_grpc.infer("many", inputs_of_many(), headers=owner))
            with pytest.raises(InferenceServerException, match="NOT_FOUND"):
                await over_grpc.get_model_metadata("nothing", headers=owner)
        async with triton_http_aio.InferenceServerClient(service.address.removeprefix("http://")) as over_http:
            assert_many(await over_http.infer("many", inputs_of_many(given_over_http), headers=owner))

    asyncio.run(ask())


def test_a_batch_an_id_and_the_outputs_that_are_named(
    client: triton.InferenceServerClient, owner: dict[str, str]
) -> None:
    rows = np.arange(-10, 10, dtype=np.float32).reshape(10, 2)
    result = client.infer("relu", [given("x", rows)], request_id="batch", headers=owner)
    np.testing.assert_array_equal(result.as_numpy("output"), np.maximum(rows, 0))
    assert result.get_response().id == "batch"

    wanted = [triton.InferRequestedOutput("output.1"), triton.InferRequestedOutput("output.0.0")]
    some = client.infer("many", inputs_of_many(), outputs=wanted, headers=owner).get_response()
    assert [output.name for output in some.outputs] == ["output.1", "output.0.0"]


def test_an_empty_tensor_is_answered_or_refused_as_over_http(
    service: Service, client: triton.InferenceServerClient, owner: dict[str, str]
) -> None:
    empty = np.zeros((0, 2), np.float32)
    with closing(triton_http.InferenceServerClient(service.address.removeprefix("http://"))) as over_http:
        found = [
            outcome(lambda each=each, make=make: each.infer("relu", [make("x", empty)], headers={**owner}))
            for each, make in ((client, given), (over_http, given_over_http))
        ]
    assert found[0] == found[1]


def outcome(ask: Callable[[], Any]) -> object:
    """The shape of the answer, or what the contract says against it."""
    try:
        return ask().as_numpy("output").shape
    except InferenceServerException as error:
        return error.message().partition(". ")[0]


def test_typed_contents_are_read_as_raw_ones(stub: Any, owner: dict[str, str]) -> None:
    def ask(request: Any) -> list[bytes]:
        return [*stub.ModelInfer(request, metadata=[*owner.items()]).raw_output_contents]

    answer = [np.array([1, 0, 3, 4], np.float32).tobytes()]
    assert ask(raw(X.tobytes())) == answer
    assert ask(typed("fp32_contents", X.flatten().tolist())) == answer
    assert ask(typed("fp64_contents", X.flatten().tolist(), "FP64")) == [np.maximum(X, 0).astype(np.float64).tobytes()]

    many = messages.ModelInferRequest(model_name="many")
    many.inputs.add(name="x", datatype="FP32", shape=[2, 2]).contents.fp32_contents.extend(X.flatten().tolist())
    many.inputs.add(name="ids", datatype="INT64", shape=[3]).contents.int64_contents.extend(IDS.tolist())
    many.inputs.add(name="mask", datatype="BOOL", shape=[2]).contents.bool_contents.extend(MASK.tolist())
    assert ask(many)[1:3] == [(IDS * 2).tobytes(), b"\1"]


def test_many_values_in_a_typed_field_are_read_aside(stub: Any, owner: dict[str, str]) -> None:
    values = np.linspace(-1, 1, 100_000, dtype=np.float32)
    request = typed("fp32_contents", values.tolist(), shape=(50_000, 2))
    answer = stub.ModelInfer(request, metadata=[*owner.items()])
    np.testing.assert_array_equal(np.frombuffer(answer.raw_output_contents[0], np.float32), np.maximum(values, 0))


def test_a_seed_is_taken_and_the_one_that_was_drawn_is_said(
    client: triton.InferenceServerClient, owner: dict[str, str]
) -> None:
    first = client.infer("draws", [given("x", X)], headers=owner)
    seed = first.get_response().parameters["seed"].int64_param
    again = client.infer("draws", [given("x", X)], headers=owner, parameters={"seed": seed})
    np.testing.assert_array_equal(first.as_numpy("output"), again.as_numpy("output"))


def test_models_are_listed_loaded_counted_and_unloaded(
    client: triton.InferenceServerClient, owner: dict[str, str], keys: dict[str, str]
) -> None:
    listed = client.get_model_repository_index(headers=owner).models
    assert {(each.name, each.version, each.state) for each in listed} == {(name, "1", "READY") for name in MODELS}
    assert not client.get_model_repository_index(headers={"authorization": keys["stranger"]}).models

    client.load_model("relu", headers=owner)
    before = client.get_inference_statistics("relu", headers=owner).model_stats[0]
    client.infer("relu", [given("x", X)], headers=owner)
    (after,) = client.get_inference_statistics("relu", "1", headers=owner).model_stats
    assert after.inference_stats.success.count == before.inference_stats.success.count + 1
    assert after.last_inference > before.last_inference
    assert len(client.get_inference_statistics(headers=owner).model_stats) == len(MODELS)

    client.unload_model("relu", headers=owner)
    assert client.infer("relu", [given("x", X)], headers=owner).as_numpy("output") is not None


# What is refused.


@pytest.mark.parametrize(
    ("request_", "status", "code"),
    [
        (raw(X.tobytes(), shape=(4,)), Code.INVALID_ARGUMENT, "shape-mismatch"),
        (raw(X.tobytes()[:-1]), Code.INVALID_ARGUMENT, "invalid-tensor"),
        (raw(X.tobytes(), b""), Code.INVALID_ARGUMENT, "invalid-request"),
        (raw(X.tobytes(), shape=(-1, 2)), Code.INVALID_ARGUMENT, "invalid-tensor"),
        (raw(X.tobytes(), model_version="7"), Code.NOT_FOUND, "version-not-found"),
        (raw(X.tobytes(), model_version="x"), Code.INVALID_ARGUMENT, "invalid-name"),
        (raw(X.tobytes(), id="x" * 1001), Code.INVALID_ARGUMENT, "invalid-request"),
        (messages.ModelInferRequest(model_name="nothing"), Code.NOT_FOUND, "model-not-found"),
        (messages.ModelInferRequest(), Code.INVALID_ARGUMENT, "invalid-name"),
        (messages.ModelInferRequest(model_name="relu"), Code.INVALID_ARGUMENT, "missing-input"),
        (typed("fp32_contents", [1, 2, 3]), Code.INVALID_ARGUMENT, "invalid-tensor"),
        (typed("int_contents", [1, 2, 3, 4]), Code.INVALID_ARGUMENT, "invalid-tensor"),
        (typed("int_contents", [1, 2, 3, 300], "INT8"), Code.INVALID_ARGUMENT, "invalid-tensor"),
        (typed("fp32_contents", [1, 2, 3, 4], "BF16"), Code.INVALID_ARGUMENT, "invalid-tensor"),
        (typed("int_contents", [1, 2, 3, 4], "INT32"), Code.INVALID_ARGUMENT, "datatype-mismatch"),
        (typed("bytes_contents", [b"a"] * 4, "BYTES"), Code.INVALID_ARGUMENT, "datatype-mismatch"),
    ],
)
def test_what_is_wrong_is_refused_with_a_problem(
    stub: Any, owner: dict[str, str], request_: Any, status: Code, code: str
) -> None:
    found, problem = refused(lambda: stub.ModelInfer(request_, metadata=[*owner.items()]))

    assert (found, problem["code"]) == (status, code), problem
    assert problem["instance"] == INFER


def test_a_refusal_is_counted_among_the_problems(
    service: Service, stub: Any, owner: dict[str, str], keys: dict[str, str]
) -> None:
    def counted() -> float:
        found = scrape(service, keys).all("tracehouse_problems_total", code="model-not-found")
        return sum(value for _, value in found)

    before = counted()
    unknown = messages.ModelInferRequest(model_name="nothing")
    status, problem = refused(lambda: stub.ModelInfer(unknown, metadata=[*owner.items()]))
    assert (status, problem["code"]) == (Code.NOT_FOUND, "model-not-found")
    assert counted() == before + 1


def test_raw_and_typed_contents_in_one_request_are_refused(stub: Any, owner: dict[str, str]) -> None:
    request = typed("fp32_contents", [1, 2, 3, 4])
    request.raw_input_contents.append(X.tobytes())

    _, problem = refused(lambda: stub.ModelInfer(request, metadata=[*owner.items()]))

    assert problem["errors"][0]["pointer"] == "/inputs/0/contents"


def test_what_the_service_does_not_have_it_says(client: triton.InferenceServerClient, owner: dict[str, str]) -> None:
    for ask in (client.get_log_settings, client.get_trace_settings, client.get_system_shared_memory_status):
        with pytest.raises(InferenceServerException, match=r"UNIMPLEMENTED.*the service has no"):
            ask(headers=owner)
    with pytest.raises(InferenceServerException, match="UNIMPLEMENTED"):
        client.load_model("relu", headers=owner, config="{}")
    with pytest.raises(InferenceServerException, match="UNIMPLEMENTED"):
        client.infer("relu", [given("x", X)], headers=owner, sequence_id=5)
    with pytest.raises(InferenceServerException, match="UNIMPLEMENTED"):
        client.infer("relu", [given("x", X)], headers=owner, compression_algorithm="gzip")


def test_a_call_needs_a_key_that_may_make_it(stub: Any, keys: dict[str, str]) -> None:
    def ask(*authorization: str) -> tuple[Code, str]:
        metadata = [("authorization", each) for each in authorization]
        status, problem = refused(lambda: stub.ModelInfer(raw(X.tobytes()), metadata=metadata))
        return status, problem["code"]

    assert ask() == (Code.UNAUTHENTICATED, "api-key-missing")
    assert ask("Bearer th_live_" + "x" * 40) == (Code.UNAUTHENTICATED, "api-key-invalid")
    assert ask(keys["owner"], keys["owner"]) == (Code.UNAUTHENTICATED, "api-key-invalid")
    assert ask(keys["reader"]) == (Code.PERMISSION_DENIED, "scope-missing")
    assert ask(keys["stranger"]) == (Code.NOT_FOUND, "model-not-found")


def test_a_key_is_counted_over_http_and_grpc_together(service: Service, stub: Any, keys: dict[str, str]) -> None:
    metadata = [("authorization", keys["limited"])]
    with service.client() as http:
        assert http.get("/v2/models/relu", headers=dict(metadata)).status_code == 200
    for _ in range(CALLED_PER_MINUTE - 1):
        stub.ModelReady(messages.ModelReadyRequest(name="relu"), metadata=metadata)

    status, problem = refused(lambda: stub.ModelReady(messages.ModelReadyRequest(name="relu"), metadata=metadata))

    assert (status, problem["code"]) == (Code.RESOURCE_EXHAUSTED, "rate-limited")


def test_a_call_has_an_id_and_a_line_in_the_log(service: Service, stub: Any, owner: dict[str, str]) -> None:
    _, call = stub.ModelInfer.with_call(raw(X.tobytes()), metadata=[*owner.items(), ("x-request-id", "grpc-1")])

    assert dict(call.trailing_metadata())["x-request-id"] == "grpc-1"
    (line,) = logged(service, "request", "grpc-1")
    assert (line["method"], line["status"], line["tenant"]) == ("gRPC", 200, "acme")
    assert line["path"].endswith("/ModelInfer")


# Calls that end early.


def wait_for_line(service: Service, request_id: str) -> dict[str, Any]:
    wait_for(lambda: logged(service, "request", request_id))
    return logged(service, "request", request_id)[0]


def test_a_call_that_is_cancelled_or_late_is_given_up(
    service: Service, stub: Any, owner: dict[str, str], held: Callable[[], None]
) -> None:
    late = stub.ModelInfer.future(
        raw(X.tobytes()), timeout=2, metadata=[*owner.items(), ("x-request-id", "late")]
    )  # fmt: skip
    assert late.code() is Code.DEADLINE_EXCEEDED
    assert wait_for_line(service, "late")["status"] in (499, 504)

    given_up = stub.ModelInfer.future(raw(X.tobytes()), metadata=[*owner.items(), ("x-request-id", "given-up")])
    assert not given_up.done()
    given_up.cancel()
    assert wait_for_line(service, "given-up")["status"] == 499

    held()
    assert stub.ModelInfer(raw(X.tobytes()), metadata=[*owner.items()], timeout=ANSWER_S).raw_output_contents


def test_the_timeout_of_a_request_is_kept(stub: Any, owner: dict[str, str], held: Callable[[], None]) -> None:
    request = raw(X.tobytes())
    request.parameters["timeout"].int64_param = 100_000

    status, problem = refused(lambda: stub.ModelInfer(request, metadata=[*owner.items()]))

    assert (status, problem["code"]) == (Code.DEADLINE_EXCEEDED, "inference-timeout")


def is_answered(stub: Any, owner: dict[str, str]) -> bool:
    try:
        stub.ModelReady(messages.ModelReadyRequest(name="relu"), metadata=[*owner.items()])
    except grpc.RpcError:
        return False
    return True


def test_a_tenant_has_so_many_calls_at_a_time(
    stub: Any, owner: dict[str, str], keys: dict[str, str], held: Callable[[], None]
) -> None:
    waiting = [stub.ModelInfer.future(raw(X.tobytes()), metadata=[*owner.items()]) for _ in range(TENANT_CALLS_MAX)]
    wait_for(lambda: not is_answered(stub, owner))

    status, problem = refused(
        lambda: stub.ModelReady(messages.ModelReadyRequest(name="relu"), metadata=[*owner.items()])
    )

    assert (status, problem["code"]) == (Code.RESOURCE_EXHAUSTED, "connection-quota-exceeded")
    other = [("authorization", keys["stranger"])]
    assert not stub.RepositoryIndex(messages.RepositoryIndexRequest(), metadata=other).models
    held()
    assert all(call.result(ANSWER_S).raw_output_contents for call in waiting)


def test_each_duration_is_counted_as_often_as_an_answer(
    client: triton.InferenceServerClient, owner: dict[str, str], stub: Any, held: Callable[[], None]
) -> None:
    """perf_analyzer gives up where it is not so."""
    late = raw(X.tobytes())
    late.parameters["timeout"].int64_param = 100_000
    refused(lambda: stub.ModelInfer(late, metadata=[*owner.items()]))
    held()
    # perf_analyzer sends this parameter with each request, though it is for streams.
    asked = raw(X.tobytes())
    asked.parameters["triton_enable_empty_final_response"].bool_param = True
    stub.ModelInfer(asked, metadata=[*owner.items()])

    counted = client.get_inference_statistics("relu", headers=owner).model_stats[0].inference_stats

    assert counted.fail.count > 0
    durations = (counted.queue, counted.compute_input, counted.compute_infer, counted.compute_output)
    assert {each.count for each in durations} == {counted.success.count}


# Attacks.


def test_garbage_on_the_port_changes_nothing(
    service: Service, client: triton.InferenceServerClient, owner: dict[str, str]
) -> None:
    host, port = service.grpc_address.split(":")
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    for sent in (b"\0" * 70_000, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", preface + b"\xff" * 70_000, preface):
        with closing(socket.create_connection((host, int(port)))) as connection, suppress(OSError):
            connection.sendall(sent)

    assert_many(client.infer("many", inputs_of_many(), headers=owner))


@pytest.mark.parametrize(
    "message",
    [
        b"\xff" * 100,
        b"\x0a\x10relu",
        b"\x0a\x02\xff\xff",
        b"\x0a\x04relu\x1b\x1c",
        b"\x0a\x04relu\x3a\xff\xff\xff\xff\x0f",
        b"\x0a\x04relu" + b"\x2a\x00" * 100_000,
        b"\x0a\x04relu\x2a\x8d\x86\x06" + b"\x22\x00" * 50_000,
    ],
)
def test_bytes_that_are_no_message_are_refused(channel: grpc.Channel, owner: dict[str, str], message: bytes) -> None:
    ask = channel.unary_unary(INFER)

    status, problem = refused(lambda: ask(message, metadata=[*owner.items()]))

    assert (status, problem["code"]) == (Code.INVALID_ARGUMENT, "malformed-message")


def test_a_huge_message_is_refused(service: Service, stub: Any, owner: dict[str, str], keys: dict[str, str]) -> None:
    huge = raw(bytes(MESSAGE_MAX_BYTES), shape=(MESSAGE_MAX_BYTES // 8, 2))
    with pytest.raises(grpc.RpcError) as raised:
        stub.ModelInfer(huge, metadata=[*owner.items()])
    assert raised.value.code() is Code.RESOURCE_EXHAUSTED
    assert str(MESSAGE_MAX_BYTES) in raised.value.details()

    # Beside the bytes of tensors, a message is as JSON over HTTP.
    long = typed("fp32_contents", [0.0] * (REQUEST_MAX_BYTES // 4), shape=(REQUEST_MAX_BYTES // 8, 2))
    status, problem = refused(lambda: stub.ModelInfer(long, metadata=[*owner.items()]))
    assert (status, problem["code"]) == (Code.RESOURCE_EXHAUSTED, "payload-too-large")


def test_an_answer_too_large_for_a_message_is_refused(service: Service, stub: Any, owner: dict[str, str]) -> None:
    rows = MESSAGE_MAX_BYTES // 16 + 1  # `grows` answers with twice the bytes that it gets
    request = raw(bytes(rows * 8), shape=(rows, 2))
    request.model_name = "grows"

    status, problem = refused(lambda: stub.ModelInfer(request, metadata=[*owner.items()]))

    assert (status, problem["code"], problem["limit"]) == (Code.INVALID_ARGUMENT, "answer-too-large", MESSAGE_MAX_BYTES)


def test_nobody_without_a_key_has_a_message_read(channel: grpc.Channel) -> None:
    """The call is refused while its message is still to come."""
    begun = channel.stream_unary(INFER).future(endless())

    assert begun.code() is Code.UNAUTHENTICATED


def endless() -> Iterator[bytes]:
    while True:
        sleep(ANSWER_S)
        yield b""


def test_many_open_calls_leave_room_for_others(
    service: Service, client: triton.InferenceServerClient, owner: dict[str, str], keys: dict[str, str]
) -> None:
    """Calls of one tenant whose messages never come, on many connections, fill neither places nor memory."""
    stranger = [("authorization", keys["stranger"])]
    options = [("grpc.use_local_subchannel_pool", 1)]
    channels = [grpc.insecure_channel(service.grpc_address, options=options) for _ in range(20)]
    try:
        calls = [
            channel.stream_unary(INFER).future(endless(), metadata=stranger) for channel in channels for _ in range(20)
        ]
        wait_for(lambda: len([call for call in calls if call.done()]) >= len(calls) - TENANT_CALLS_MAX)
        assert_many(client.infer("many", inputs_of_many(), headers=owner))
        with service.client() as http:
            assert http.get("/v2/health/ready").status_code == 200
        wait_for(lambda: all(call.done() for call in calls))
        assert {call.code() for call in calls} == {Code.RESOURCE_EXHAUSTED, Code.DEADLINE_EXCEEDED}
        late = [problem_of(call) for call in calls if call.code() is Code.DEADLINE_EXCEEDED]
        assert {problem["code"] for problem in late} == {"request-timeout"}
        assert len(late) <= TENANT_CALLS_MAX
    finally:
        for channel in channels:
            channel.close()


def test_the_log_has_no_traceback(service: Service, client: triton.InferenceServerClient) -> None:
    """The last test: whatever clients did before, nothing was a mistake of the service."""
    assert client.is_server_live()
    assert "Traceback" not in service.log.read_text()


# Starting and stopping.


def test_grpc_is_off_unless_it_is_asked_for(plain_service: Service) -> None:
    assert not plain_service.grpc_address


def test_a_call_that_runs_is_answered_by_a_service_that_stops(tmp_path: Path) -> None:
    running = Service(tmp_path / "state", GRPC_PORT="0", SHUTDOWN_GRACE_S="1")
    try:
        with grpc.insecure_channel(running.grpc_address) as channel:
            call = channel.stream_unary(INFER).future(endless())
            stub = stubs.GRPCInferenceServiceStub(channel)
            assert stub.ServerReady(messages.ServerReadyRequest()).ready, "without keys, nobody needs one"
            assert running.terminate() == 0
            assert call.code() in (Code.UNAVAILABLE, Code.CANCELLED)
    finally:
        running.close()
