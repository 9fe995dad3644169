"""Streams of requests over gRPC, by Triton's own clients as they come from PyPI: each request passes what a call would.

Hostile clients are written with gRPC alone.
"""

import asyncio
import json
import subprocess
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from queue import Queue
from time import monotonic, sleep
from typing import Any

import grpc
import numpy as np
import psutil
import pytest
import tritonclient.grpc as triton
import tritonclient.grpc.aio as triton_aio
from tritonclient.grpc import service_pb2 as messages
from tritonclient.grpc import service_pb2_grpc as stubs
from tritonclient.utils import InferenceServerException

from tests.acceptance.conftest import ANSWER_S, TRACEHOUSE, Service, create_key
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
    trace,
    wait_for,
)

__all__ = ["client", "held", "keys", "owner", "state"]  # the fixtures

SOURCE = """
import torch

class Relu(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)

class Double(torch.nn.Module):
    def forward(self, x):
        return x + x
"""
MODELS = {"relu": "Relu", "double": "Double"}
X = np.array([[1, -2], [3, 4]], np.float32)
MESSAGE_MAX_BYTES = 2**20
LARGE_ROWS = 2**16  # half a message
TENANT_CALLS_MAX = 20
IN_FLIGHT_MAX = 16
STREAM = "/inference.GRPCInferenceService/ModelStreamInfer"

Code = grpc.StatusCode


@pytest.fixture(scope="module")
def service(state: Path, keys: dict[str, str]) -> Iterator[Service]:
    with serve(
        state,
        keys,
        SOURCE,
        {model: (name, [random("FP32", 2, 2)]) for model, name in MODELS.items()},
        GRPC_MESSAGE_MAX_BYTES=str(MESSAGE_MAX_BYTES),
        REQUEST_MAX_BYTES=str(MESSAGE_MAX_BYTES),
        TENANT_CONNECTIONS_MAX=str(TENANT_CALLS_MAX),
    ) as running:
        yield running


@pytest.fixture(scope="module")
def passing_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Without keys and models, with short limits, and memory for one message that arrives."""
    running = Service(
        tmp_path_factory.mktemp("passing") / "state",
        GRPC_PORT="0",
        GRPC_STREAM_IDLE_S="15",
        GRPC_STREAM_MAX_S="25",
        GRPC_MESSAGE_MAX_BYTES=str(MESSAGE_MAX_BYTES),
        ARRIVING_MAX_BYTES=str(MESSAGE_MAX_BYTES),
    )
    yield running
    running.close()


@pytest.fixture
def channel(service: Service) -> Iterator[grpc.Channel]:
    with open_channel(service) as channel:
        yield channel


def open_channel(service: Service) -> grpc.Channel:
    """A connection of its own."""
    options = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
    return grpc.insecure_channel(service.grpc_address, options=options)


def given(x: np.ndarray) -> triton.InferInput:
    tensor = triton.InferInput("x", [*x.shape], "FP32")
    tensor.set_data_from_numpy(x)
    return tensor


def asked(x: np.ndarray = X, model: str = "relu", **members: Any) -> Any:
    """A request as the messages have it."""
    request = messages.ModelInferRequest(model_name=model, raw_input_contents=[x.tobytes()], **members)
    request.inputs.add(name="x", datatype="FP32", shape=x.shape)
    return request


class Conversation:
    """A stream by gRPC alone: what is said goes out at once."""

    def __init__(self, channel: grpc.Channel, metadata: dict[str, str], **options: Any) -> None:
        self._said: Queue[Any] = Queue()
        self.taken = 0  # messages that gRPC has taken
        stub = stubs.GRPCInferenceServiceStub(channel)
        self.call: Any = stub.ModelStreamInfer(self._outgoing(), metadata=[*metadata.items()], **options)

    def say(self, *requests: Any) -> None:
        for request in requests:
            self._said.put(request)

    def hear(self) -> Any:
        """The next reply; what ends the stream is raised."""
        return next(self.call)

    def keep_asking(self, request: Any, every_s: float) -> Iterator[Any]:
        """The replies to the same request again and again; what ends the stream is raised."""
        for _ in range(int(ANSWER_S / every_s)):
            yield self.ask(request)
            sleep(every_s)

    def end(self) -> None:
        self._said.put(None)

    def ask(self, request: Any) -> Any:
        self.say(request)
        return self.hear()

    def refusal(self) -> tuple[Code, dict[str, Any]]:
        """The status that ends the stream, and the problem document beside it."""
        with pytest.raises(grpc.RpcError):
            deque(self.call, maxlen=0)
        problem: dict[str, Any] = json.loads(dict(self.call.trailing_metadata())["problem"])
        assert problem["detail"] in self.call.details()
        return self.call.code(), problem

    def _outgoing(self) -> Iterator[Any]:
        while (request := self._said.get()) is not None:
            self.taken += 1
            yield request


@contextmanager
def conversation(channel: grpc.Channel, metadata: dict[str, str], **options: Any) -> Iterator[Conversation]:
    opened = Conversation(channel, metadata, **options)
    try:
        yield opened
    finally:
        opened.call.cancel()
        opened.end()


def problem_of(reply: Any) -> dict[str, Any]:
    """The problem document of a reply that refuses its request."""
    problem: dict[str, Any] = json.loads(reply.infer_response.parameters["problem"].string_param)
    assert problem["detail"] in reply.error_message
    assert problem.get("remedy", "") in reply.error_message
    return problem


def output_of(reply: Any) -> list[bytes]:
    return [*reply.infer_response.raw_output_contents]


# What Triton's clients see.


def test_a_stream_is_answered_in_the_order_of_its_requests(
    client: triton.InferenceServerClient, owner: dict[str, str]
) -> None:
    """Two models in one stream, more requests than are in flight at a time, and their ids."""
    heard: Queue[tuple[Any, Any]] = Queue()
    client.start_stream(lambda result, error: heard.put((result, error)), headers=owner)
    for number in range(100):
        model = "relu" if number % 3 else "double"
        rows = np.full((number % 5 + 1, 2), number - 50, np.float32)
        client.async_stream_infer(model, [given(rows)], request_id=str(number), enable_empty_final_response=number > 50)
    for number in range(100):
        result, error = heard.get(timeout=ANSWER_S)
        assert error is None
        reply = result.get_response()
        assert (reply.id, reply.model_name) == (str(number), "relu" if number % 3 else "double")
        assert reply.parameters["triton_final_response"].bool_param, "in Triton, each reply on a stream has it"
        value = max(number - 50, 0) if number % 3 else 2 * (number - 50)
        np.testing.assert_array_equal(result.as_numpy("output"), np.full((number % 5 + 1, 2), value))
    client.stop_stream()
    assert heard.empty(), "a stream that its client ends is no error"
    assert not client.get_model_config("relu", headers=owner).config.model_transaction_policy.decoupled


def test_the_asyncio_client_has_streams_too(service: Service, owner: dict[str, str]) -> None:
    async def requests() -> AsyncIterator[dict[str, Any]]:
        for number in range(20):
            name = "nothing" if number == 7 else "double"
            yield {"model_name": name, "inputs": [given(X * number)], "request_id": str(number)}

    async def ask() -> None:
        async with triton_aio.InferenceServerClient(service.grpc_address) as over_grpc:
            numbers = count()
            async for result, error in over_grpc.stream_infer(requests(), headers=owner):
                number = next(numbers)
                if number == 7:
                    assert "there is no model of this name" in str(error)
                    continue
                assert error is None
                assert result.get_response().id == str(number)
                np.testing.assert_array_equal(result.as_numpy("output"), X * number * 2)
            assert next(numbers) == 20

    asyncio.run(ask())


def test_what_is_wrong_with_a_request_is_its_reply_and_the_stream_goes_on(
    client: triton.InferenceServerClient, owner: dict[str, str]
) -> None:
    heard: Queue[tuple[Any, Any]] = Queue()
    client.start_stream(lambda result, error: heard.put((result, error)), headers=owner)
    for x in (X, X.flatten(), X):
        client.async_stream_infer("relu", [given(x)])
    client.async_stream_infer("nothing", [given(X)])
    client.async_stream_infer("relu", [given(X)], sequence_id=5)
    client.async_stream_infer("relu", [given(X)])

    replies = [heard.get(timeout=ANSWER_S) for _ in range(6)]
    client.stop_stream()

    with pytest.raises(InferenceServerException) as as_a_call:
        client.infer("relu", [given(X.flatten())], headers=owner)
    assert [error is None for _, error in replies] == [True, False, True, False, False, True]
    assert replies[1][1].message() == as_a_call.value.message(), "the same words as for a call"
    for answered in (0, 2, 5):
        np.testing.assert_array_equal(replies[answered][0].as_numpy("output"), np.maximum(X, 0))


def test_a_model_may_get_another_version_and_be_deleted_while_a_stream_asks_it(
    service: Service, channel: grpc.Channel, owner: dict[str, str]
) -> None:
    answered = {"Relu": [np.maximum(X, 0).tobytes()], "Double": [(X + X).tobytes()]}
    asks = asked(model="moving")
    admin = create_key(service, "--tenant", "acme", "--scope", "admin")
    with service.client() as http, conversation(channel, owner) as stream:
        http.headers.update(owner)
        trace(http, "moving", SOURCE, "Relu", [random("FP32", 2, 2)])
        first = stream.ask(asks)
        trace(http, "moving", SOURCE, "Double", [random("FP32", 2, 2)])
        second = next(one for one in stream.keep_asking(asks, every_s=0.1) if output_of(one) != output_of(first))
        http.delete("/models/moving", headers={"authorization": f"Bearer {admin}"}).raise_for_status()
        refused = next(one for one in stream.keep_asking(asks, every_s=0.1) if one.error_message)
        other = stream.ask(asked())

    assert (first.infer_response.model_version, output_of(first)) == ("1", answered["Relu"])
    assert (second.infer_response.model_version, output_of(second)) == ("2", answered["Double"])
    assert problem_of(refused)["code"] == "model-not-found"
    assert output_of(other) == answered["Relu"], "the stream goes on"


def test_a_reply_that_refuses_says_which_request_and_why(channel: grpc.Channel, owner: dict[str, str]) -> None:
    with conversation(channel, owner) as stream:
        refused = {
            "shape-mismatch": asked(X.flatten(), id="a"),
            "model-not-found": asked(model="nothing", id="b"),
            "invalid-request": asked(id="x" * 1001),
            "inference-timeout": asked(id="c", parameters={"timeout": messages.InferParameter(int64_param=1)}),
        }
        for code, request in refused.items():
            reply = stream.ask(request)
            problem = problem_of(reply)
            assert problem["code"] == code
            assert reply.infer_response.id == request.id
            assert reply.infer_response.parameters["triton_final_response"].bool_param
            assert not reply.infer_response.outputs
        assert not stream.ask(asked()).error_message


def test_bytes_that_are_no_request_are_refused_between_requests(channel: grpc.Channel, owner: dict[str, str]) -> None:
    good = asked(id="good").SerializeToString()
    named = messages.ModelInferRequest(id="bad").SerializeToString()
    sent = [good, b"\xff" * 100, b"", named + b"\x2a\x00" * 100_000, named + b"\x1a\xff\xff\x03", good]
    replies: Any = channel.stream_stream(STREAM)(iter(sent), metadata=(*owner.items(),))

    found = [messages.ModelStreamInferResponse.FromString(each) for each in replies]

    assert [not each.error_message for each in found] == [True, False, False, False, False, True]
    assert [each.infer_response.id for each in found] == ["good", "", "", "bad", "bad", "good"]
    assert {problem_of(each)["code"] for each in found[1:5]} == {"malformed-message", "invalid-name"}


def test_a_stream_of_nothing_is_no_error(channel: grpc.Channel, owner: dict[str, str]) -> None:
    with conversation(channel, owner) as stream:
        stream.end()
        with pytest.raises(StopIteration):
            stream.hear()
        assert stream.call.code() is Code.OK


def test_each_request_has_an_id_and_a_line_in_the_log(
    service: Service, channel: grpc.Channel, owner: dict[str, str]
) -> None:
    with conversation(channel, {**owner, "x-request-id": "camera"}) as stream:
        stream.ask(asked())
        assert dict(stream.call.initial_metadata())["x-request-id"] == "camera"
        assert problem_of(stream.ask(asked(model="nothing")))["request_id"] == "camera.2"
        stream.end()
        with pytest.raises(StopIteration):
            stream.hear()

    (first,), (second,) = logged(service, "request", "camera.1"), logged(service, "request", "camera.2")
    assert (first["method"], first["status"], first["tenant"], second["status"]) == ("gRPC", 200, "acme", 404)
    assert first["path"] == second["path"] == STREAM
    (end,) = logged(service, "stream ended", "camera")
    assert (end["status"], end["requests"], end["tenant"]) == (200, 2, "acme")


# Limits that a call has.


def test_a_stream_needs_a_key_that_may_open_it(channel: grpc.Channel, keys: dict[str, str]) -> None:
    def opened(metadata: dict[str, str]) -> tuple[Code, str]:
        with conversation(channel, metadata) as stream:
            status, problem = stream.refusal()  # no message has come
            return status, problem["code"]

    assert opened({}) == (Code.UNAUTHENTICATED, "api-key-missing")
    assert opened({"authorization": "Bearer th_live_" + "x" * 40}) == (Code.UNAUTHENTICATED, "api-key-invalid")
    assert opened({"authorization": keys["reader"]}) == (Code.PERMISSION_DENIED, "scope-missing")


def test_each_request_counts_for_its_key(channel: grpc.Channel, keys: dict[str, str]) -> None:
    begun = monotonic()
    with conversation(channel, {"authorization": keys["limited"]}) as stream:
        stream.say(*(asked(id=str(number)) for number in range(1000)))
        replies = [stream.hear() for _ in range(1000)]
        assert [reply.infer_response.id for reply in replies] == [str(number) for number in range(1000)]
        refused = [problem_of(reply)["code"] for reply in replies if reply.error_message]
        assert {*refused} == {"rate-limited"}
        minutes = (monotonic() - begun) / 60
        answered = len(replies) - len(refused)
        assert CALLED_PER_MINUTE <= answered <= CALLED_PER_MINUTE * (1 + minutes), "the stream itself costs no more"

        with conversation(channel, {"authorization": keys["limited"]}) as another:
            status, problem = another.refusal()
            assert (status, problem["code"]) == (Code.RESOURCE_EXHAUSTED, "rate-limited")


def test_a_key_that_is_revoked_ends_its_stream(service: Service, channel: grpc.Channel, owner: dict[str, str]) -> None:
    key = create_key(service, "--tenant", "acme", "--scope", "infer")
    with conversation(channel, {"authorization": f"Bearer {key}"}) as stream:
        assert not stream.ask(asked()).error_message
        subprocess.run(
            [TRACEHOUSE, "keys", "revoke", key[: len("th_12345678")], "--state", service.state],
            capture_output=True,
            check=True,
        )
        answers = []
        with pytest.raises(grpc.RpcError):
            answers.extend(stream.keep_asking(asked(), every_s=0.1))
        assert not any(each.error_message for each in answers)
        assert (stream.call.code(), stream.refusal()[1]["code"]) == (Code.UNAUTHENTICATED, "api-key-invalid")


def test_a_key_that_expires_ends_its_stream(service: Service, channel: grpc.Channel) -> None:
    admin = create_key(service, "--tenant", "acme", "--scope", "admin", "--scope", "infer")
    expires_at = datetime.now(UTC) + timedelta(seconds=5)
    with service.client() as http:
        wanted = {"name": "short", "scopes": ["infer"], "expires_at": expires_at.isoformat()}
        made = http.post("/keys", json=wanted, headers={"authorization": f"Bearer {admin}"})
        assert made.status_code == 201, made.text

    def times_of_answered(stream: Conversation) -> Iterator[datetime]:
        for _ in range(int(ANSWER_S * 10)):
            asked_at = datetime.now(UTC)
            assert not stream.ask(asked()).error_message
            yield asked_at
            sleep(0.1)

    times: list[datetime] = []
    with conversation(channel, {"authorization": f"Bearer {made.json()['key']}"}) as stream:
        with pytest.raises(grpc.RpcError):
            times.extend(times_of_answered(stream))
        assert (stream.call.code(), stream.refusal()[1]["code"]) == (Code.UNAUTHENTICATED, "api-key-expired")
    assert all(each < expires_at for each in times)


def in_flight(service: Service, keys: dict[str, str]) -> float:
    """How many requests wait for a runner, or for its answer."""
    return sum(value for _, value in scrape(service, keys).all("tracehouse_inference_in_flight"))


def held_bytes(service: Service, keys: dict[str, str]) -> list[float]:
    """How many bytes of messages are counted, and how many of replies."""
    return [value for _, value in scrape(service, keys).all("tracehouse_held_bytes")]


def test_requests_of_a_stream_are_in_flight_together_up_to_a_bound(
    service: Service, channel: grpc.Channel, owner: dict[str, str], keys: dict[str, str], held: Callable[[], None]
) -> None:
    """Each takes a place of a call; and a client that goes on finds that nobody reads."""
    large = np.full((LARGE_ROWS, 2), -1, np.float32)
    with conversation(channel, owner) as stream:
        stream.say(*(asked(large, id=str(number)) for number in range(150)))
        wait_for(lambda: in_flight(service, keys) == IN_FLIGHT_MAX)
        stub = stubs.GRPCInferenceServiceStub(channel)
        calls = [
            stub.ModelInfer.future(asked(), metadata=[*owner.items()], timeout=ANSWER_S)
            for _ in range(TENANT_CALLS_MAX - IN_FLIGHT_MAX)
        ]
        wait_for(lambda: in_flight(service, keys) == TENANT_CALLS_MAX)
        with pytest.raises(grpc.RpcError) as one_more:
            stub.ModelInfer(asked(), metadata=[*owner.items()])
        assert one_more.value.code() is Code.RESOURCE_EXHAUSTED, "requests of a stream take the places of calls"
        assert in_flight(service, keys) == TENANT_CALLS_MAX
        assert stream.taken <= IN_FLIGHT_MAX + 2, "gRPC itself takes next to nothing of messages that nobody reads"
        held()
        assert all(call.result().raw_output_contents for call in calls)
        replies = [stream.hear() for _ in range(150)]
        assert [(reply.infer_response.id, reply.error_message) for reply in replies] == [
            (str(n), "") for n in range(150)
        ]


def test_the_metrics_count_a_stream_and_its_requests_as_connections(
    service: Service, channel: grpc.Channel, owner: dict[str, str], keys: dict[str, str], held: Callable[[], None]
) -> None:
    def taken(protocol: str) -> float:
        return scrape(service, keys).value("tracehouse_connections", protocol=protocol)

    wait_for(lambda: taken("grpc") == 0)
    with conversation(channel, owner) as stream:
        assert not stream.ask(asked(model="double")).error_message
        assert taken("grpc") == 1, "a stream without a request"
        stream.say(*(asked() for _ in range(IN_FLIGHT_MAX)))
        wait_for(lambda: taken("grpc") == IN_FLIGHT_MAX)
        held()
        assert all(not stream.hear().error_message for _ in range(IN_FLIGHT_MAX))
    wait_for(lambda: taken("grpc") == 0)
    assert taken("http") == 1, "that of the scrape itself"


def test_a_stream_beside_all_calls_that_its_tenant_may_have_is_answered_one_by_one(
    service: Service, channel: grpc.Channel, owner: dict[str, str], keys: dict[str, str], held: Callable[[], None]
) -> None:
    stub = stubs.GRPCInferenceServiceStub(channel)
    with conversation(channel, owner) as stream:
        assert not stream.ask(asked(model="double")).error_message
        calls = [
            stub.ModelInfer.future(asked(), metadata=[*owner.items()], timeout=ANSWER_S)
            for _ in range(TENANT_CALLS_MAX - 1)
        ]
        wait_for(lambda: in_flight(service, keys) == len(calls))
        stream.say(*(asked(model="double", id=str(number)) for number in range(100)))
        replies = [stream.hear() for _ in range(100)]
        assert [(reply.infer_response.id, reply.error_message) for reply in replies] == [
            (str(number), "") for number in range(100)
        ]
        held()
        assert all(call.result().raw_output_contents for call in calls), "the stream has taken none of their places"


def test_a_stream_with_a_request_makes_no_room_for_calls_whichever_request_that_is(
    service: Service, channel: grpc.Channel, owner: dict[str, str], keys: dict[str, str], held: Callable[[], None]
) -> None:
    """The first of two requests is answered, and the second one is not."""
    stub = stubs.GRPCInferenceServiceStub(channel)
    with conversation(channel, owner) as stream:
        stream.say(asked(model="double"), asked(id="second"))
        assert not stream.hear().error_message
        wait_for(lambda: in_flight(service, keys) == 1)
        calls = [
            stub.ModelInfer.future(asked(), metadata=[*owner.items()], timeout=ANSWER_S)
            for _ in range(TENANT_CALLS_MAX - 1)
        ]
        wait_for(lambda: in_flight(service, keys) == TENANT_CALLS_MAX)
        with pytest.raises(grpc.RpcError) as one_more:
            stub.ModelInfer(asked(), metadata=[*owner.items()], timeout=ANSWER_S)
        assert one_more.value.code() is Code.RESOURCE_EXHAUSTED
        held()
        assert all(call.result().raw_output_contents for call in calls)
        assert (reply := stream.hear()).infer_response.id == "second"
        assert not reply.error_message
        assert not stream.ask(asked()).error_message, "the stream goes on"


def test_a_stream_whose_client_goes_is_given_up(
    service: Service, owner: dict[str, str], keys: dict[str, str], held: Callable[[], None]
) -> None:
    for how in ("cancels", "goes"):
        with open_channel(service) as channel, conversation(channel, {**owner, "x-request-id": how}) as stream:
            stream.say(asked(), asked(), asked())
            wait_for(lambda: in_flight(service, keys) == 3)
            channel.close() if how == "goes" else stream.call.cancel()
            wait_for(lambda how=how: logged(service, "stream ended", how))
        assert [logged(service, "request", f"{how}.{number}")[0]["status"] for number in (1, 2, 3)] == [499] * 3
        wait_for(lambda: in_flight(service, keys) == 0)


def test_the_deadlines_of_a_request_and_of_a_stream_are_kept(
    service: Service, channel: grpc.Channel, owner: dict[str, str], held: Callable[[], None]
) -> None:
    late = asked(parameters={"timeout": messages.InferParameter(int64_param=100_000)})
    with conversation(channel, owner, timeout=ANSWER_S) as stream:
        assert problem_of(stream.ask(late))["code"] == "inference-timeout"
        assert not stream.ask(asked(model="double")).error_message

    with conversation(channel, {**owner, "x-request-id": "late"}, timeout=2) as stream:
        stream.say(asked())
        with pytest.raises(grpc.RpcError):
            deque(stream.call, maxlen=0)  # the service may say just before that the request's time is over
        assert stream.call.code() is Code.DEADLINE_EXCEEDED
    wait_for(lambda: logged(service, "request", "late.1"))
    assert logged(service, "request", "late.1")[0]["status"] in (499, 504)


# Attacks.


def test_replies_that_nobody_reads_fill_neither_memory_nor_the_places_of_others(
    service: Service, client: triton.InferenceServerClient, owner: dict[str, str], keys: dict[str, str]
) -> None:
    large = np.zeros((LARGE_ROWS, 2), np.float32)
    process = psutil.Process(service.process.pid)
    client.infer("double", [given(large)], headers=owner)
    before = process.memory_info().rss
    with ExitStack() as opened:
        streams = []
        for _ in range(TENANT_CALLS_MAX // 4):
            channel = opened.enter_context(open_channel(service))
            streams.append(opened.enter_context(conversation(channel, owner)))
            assert not streams[-1].ask(asked()).error_message
        for stream in streams:
            stream.say(*(asked(large, model="double") for _ in range(200)))
        wait_for(lambda: all(stream.taken > 2 for stream in streams))
        taken: list[int] = []
        while taken != (taken := [stream.taken for stream in streams]):
            sleep(2)
        assert all(each < 200 for each in taken)
        grown = process.memory_info().rss - before
        assert grown < 100 * MESSAGE_MAX_BYTES, "of 300 MiB that were asked for, nobody has read one"
        for stream in streams:
            assert not stream.hear().error_message, "who reads late is answered"
    other = {"authorization": keys["stranger"]}
    assert not client.get_model_repository_index(headers=other).models
    np.testing.assert_array_equal(client.infer("relu", [given(X)], headers=owner).as_numpy("output"), np.maximum(X, 0))


# Asks much on streams of connections with small windows, and reads no reply.
READS_NOTHING = """
import sys
from pathlib import Path
import grpc

address, key, streams, requests, file = sys.argv[1:]
request = Path(file).read_bytes()
options = [("grpc.use_local_subchannel_pool", 1), ("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 1024)]
channels = [grpc.insecure_channel(address, options) for _ in range(int(streams))]
calls = [
    channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer")(
        (request for _ in range(int(requests))), metadata=[("authorization", key)]
    )
    for channel in channels
]
sys.stdin.read()
"""


def test_what_a_client_holds_that_is_killed_is_free_again(
    service: Service, owner: dict[str, str], keys: dict[str, str], tmp_path: Path
) -> None:
    request = tmp_path / "request"
    request.write_bytes(asked(np.zeros((LARGE_ROWS, 2), np.float32), model="double").SerializeToString())
    command = [sys.executable, "-c", READS_NOTHING, service.grpc_address, owner["authorization"], "4", "30", request]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as killed:
        try:
            wait_for(lambda: min(held_bytes(service, keys)) > 8 * MESSAGE_MAX_BYTES)
            held: list[float] = []
            while held != (held := held_bytes(service, keys)):
                sleep(1)
        finally:
            killed.kill()

    wait_for(lambda: held_bytes(service, keys) == [0, 0])
    assert max(held) > 0, "nothing was held"


def test_a_message_too_large_ends_the_stream_alone(
    client: triton.InferenceServerClient, channel: grpc.Channel, owner: dict[str, str]
) -> None:
    huge = np.zeros((MESSAGE_MAX_BYTES // 8, 2), np.float32)
    with conversation(channel, owner) as stream:
        assert not stream.ask(asked()).error_message
        stream.say(asked(huge))
        with pytest.raises(grpc.RpcError):
            stream.hear()
        assert stream.call.code() is Code.RESOURCE_EXHAUSTED
    assert client.infer("relu", [given(X)], headers=owner).as_numpy("output") is not None


def test_thousands_of_idle_streams_make_room_for_calls_and_for_other_tenants(
    service: Service, client: triton.InferenceServerClient, owner: dict[str, str], keys: dict[str, str]
) -> None:
    with ExitStack() as opened:
        channels = [opened.enter_context(open_channel(service)) for _ in range(20)]
        stubs_ = [stubs.GRPCInferenceServiceStub(channel) for channel in channels]
        silent: Queue[None] = Queue()
        calls = [
            each.ModelStreamInfer(iter(silent.get, None), metadata=[*owner.items()])
            for each in stubs_
            for _ in range(50)
        ]
        for call in calls:
            opened.callback(silent.put, None)
            opened.callback(call.cancel)
        wait_for(lambda: len([call for call in calls if not call.is_active()]) >= len(calls) - TENANT_CALLS_MAX)
        assert client.infer("relu", [given(X)], headers=owner).as_numpy("output") is not None
        assert not client.get_model_repository_index(headers={"authorization": keys["stranger"]}).models
        assert {call.code() for call in calls if not call.is_active()} <= {Code.UNAVAILABLE, Code.RESOURCE_EXHAUSTED}


def test_the_log_has_no_traceback(service: Service, client: triton.InferenceServerClient) -> None:
    """The last test with this service: whatever clients did before, nothing was a mistake of it."""
    assert client.is_server_live()
    assert "Traceback" not in service.log.read_text()


# Streams that stay.


def test_a_stream_on_which_nothing_is_asked_ends(passing_service: Service) -> None:
    with open_channel(passing_service) as channel, conversation(channel, {}) as stream:
        stream.ask(asked())
        status, problem = stream.refusal()
        assert (status, problem["code"]) == (Code.UNAVAILABLE, "stream-ended")
        assert "nothing was asked" in problem["detail"]


def test_a_stream_ends_when_it_is_old_also_if_it_is_used(passing_service: Service) -> None:
    with open_channel(passing_service) as channel, conversation(channel, {}) as stream:
        replies = []
        with pytest.raises(grpc.RpcError):
            replies.extend(stream.keep_asking(asked(id="again"), every_s=1))
        assert {problem_of(each)["code"] for each in replies} == {"model-not-found"}
        status, problem = stream.refusal()
        assert (status, problem["code"]) == (Code.UNAVAILABLE, "stream-ended")
        assert "at most" in problem["detail"]


def test_a_stream_that_waits_makes_room_for_a_call_that_needs_its_memory(passing_service: Service) -> None:
    with open_channel(passing_service) as channel, conversation(channel, {}) as stream:
        stream.ask(asked())
        index = stubs.GRPCInferenceServiceStub(channel).RepositoryIndex(messages.RepositoryIndexRequest())
        assert not index.models
        status, problem = stream.refusal()
        assert (status, problem["code"]) == (Code.UNAVAILABLE, "stream-ended")
        assert "others needed" in problem["detail"]


def test_a_service_that_stops_ends_its_streams(passing_service: Service) -> None:
    with open_channel(passing_service) as channel, conversation(channel, {}) as stream:
        stream.ask(asked())
        begun = monotonic()
        assert passing_service.terminate() == 0
        status, problem = stream.refusal()
        assert (status, problem["code"]) == (Code.UNAVAILABLE, "shutting-down")
        assert monotonic() - begun < ANSWER_S
