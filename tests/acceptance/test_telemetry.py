"""Traces of OpenTelemetry, as a receiver of its protocol gets them."""

import os
import secrets
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from queue import Queue
from typing import Any

import numpy as np
import orjson
import pytest
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from tests.acceptance.conftest import ANSWER_S, TRACEHOUSE, Service, StartService, ended, linear
from tests.acceptance.test_webhooks import Receiver, receiver
from tests.conftest import wait_until
from tests.otlp_receiver import OtlpReceiver, ReceivedSpan

__all__ = ["receiver"]  # the fixture

GRPC = "inference.GRPCInferenceService"
INPUTS = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1.0, 2.0]}]}


@dataclass(frozen=True)
class Caller:
    """Who asks, within a span of their own."""

    trace: str = field(default_factory=lambda: secrets.token_hex(16))
    span: str = field(default_factory=lambda: secrets.token_hex(8))

    @property
    def headers(self) -> dict[str, str]:
        return {"traceparent": f"00-{self.trace}-{self.span}-01"}


@pytest.fixture(scope="module")
def spans() -> Iterator[OtlpReceiver]:
    with OtlpReceiver.open() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def followed(spans: OtlpReceiver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One that sends its spans, for all tests that ask it as callers of their own."""
    settings = {**spans.environment, "GRPC_PORT": "0", "WEBHOOK_NETWORKS": "127.0.0.0/8"}
    running = Service(tmp_path_factory.mktemp("followed") / "state", host="127.0.0.1", program=TRACEHOUSE, **settings)
    yield running
    assert running.terminate() == 0
    running.close()


def test_a_request_is_followed_from_its_caller_through_the_queue_into_the_stages_of_its_trace(
    followed: Service, spans: OtlpReceiver
) -> None:
    caller = Caller()
    with followed.client() as client:
        request = ended(client, client.post("/trace", json=linear(force=True), headers=caller.headers))

    wait_until(lambda: bool(named(spans, "trace", caller)))
    [submitted] = named(spans, "POST /trace", caller)
    [attempt] = named(spans, "trace", caller)
    assert (submitted.service, submitted.parent) == ("tracehouse", caller.span)
    assert submitted.attributes["http.response.status_code"] == 202
    assert attempt.parent == submitted.id
    assert attempt.attributes["tracehouse.trace_request"] == request["id"]
    assert (attempt.attributes["tracehouse.attempt"], attempt.attributes["tracehouse.end"]) == (1, "verified")
    # It lasts until its turn, so it began before the span around it.
    assert spans.children(attempt) == [
        "queue",
        "loading",
        "tracing",
        "checking",
        "printing",
        "verifying",
        "storing",
    ]
    [checking] = named(spans, "checking", caller)
    assert "check observe" in spans.children(checking)

    [end] = logged(followed, message="trace ended", trace_request=request["id"])
    assert (end["trace_id"], end["span_id"]) == (caller.trace, attempt.id)


def test_an_inference_is_followed_into_its_runner(followed: Service, spans: OtlpReceiver) -> None:
    caller = Caller()
    with followed.client() as client:
        ended(client, client.post("/trace", json=linear(model="asked")))
        for _ in range(2):  # the second one needs nothing that is not there
            answer = client.post("/infer/asked", json=INPUTS, headers=caller.headers)
            assert answer.status_code == 200, answer.text
        assert client.post("/infer/asked", json=INPUTS).status_code == 200
        assert client.get("/livez").status_code == 200
        assert client.get("/models", params={"none": "x" * 30_000}).status_code == 200

    wait_until(lambda: len(spans.named("POST /infer/{model}")) == 3 and bool(spans.named("GET /models")))
    asked = spans.named("POST /infer/{model}")
    assert [one.trace == caller.trace for one in asked] == [True, True, False]
    for one in asked:
        [answered] = [inner for inner in spans.named("infer") if inner.parent == one.id]
        assert spans.children(answered) == ["wait for a runner", "runner"]
        assert (answered.attributes["tracehouse.model"], answered.attributes["tracehouse.version"]) == ("asked", 1)
    [listed] = spans.named("GET /models")
    assert len(listed.attributes["url.query"]) == 1024
    assert not spans.named("GET /livez")

    [line, *_] = logged(followed, path="/infer/asked")
    assert (line["trace_id"], line["span_id"]) == (caller.trace, asked[0].id)


def test_a_call_of_grpc_and_the_live_check_of_its_answer_are_followed(start_service: StartService) -> None:
    caller = Caller()
    with OtlpReceiver.open() as receiver:
        service = start_service(**receiver.environment, GRPC_PORT="0", LIVE_CHECK_SHARE="1", OTEL_SERVICE_NAME="models")
        with service.client() as client:
            ended(client, client.post("/trace", json=linear()))
        with closing(triton.InferenceServerClient(service.grpc_address)) as grpc:
            given = triton.InferInput("x", [1, 2], "FP32")
            given.set_data_from_numpy(np.array([[1, 2]], np.float32))
            assert grpc.infer("linear", [given], headers=caller.headers).as_numpy("output").shape == (1, 3)
            with pytest.raises(InferenceServerException):
                grpc.infer("nothing", [given], headers=caller.headers)
            assert grpc.is_server_live()

        wait_until(lambda: bool(receiver.named("live check")) and len(receiver.named(f"{GRPC}/ModelInfer")) == 2)
        answered, refused = receiver.named(f"{GRPC}/ModelInfer")
        assert [(one.trace, one.parent) for one in (answered, refused)] == [(caller.trace, caller.span)] * 2
        assert answered.attributes == {"rpc.system": "grpc", "rpc.service": GRPC, "rpc.method": "ModelInfer"}
        assert refused.attributes["error.type"] == "model-not-found"
        assert receiver.children(answered) == ["infer"]
        [inference] = [one for one in receiver.named("infer") if one.parent == answered.id]
        assert {*receiver.children(inference)} == {"wait for a runner", "runner", "live check"}
        [compared] = receiver.named("live check")
        assert compared.attributes["tracehouse.result"] == "equal"
        assert not receiver.named(f"{GRPC}/ServerLive")
        assert {one.service for one in receiver.spans} == {"models"}
        assert service.terminate() == 0

    lines = [line for line in log_of(service.log) if line.get("path") == f"/{GRPC}/ModelInfer"]
    assert [(line["trace_id"], line["span_id"]) for line in lines] == [
        (caller.trace, answered.id), (caller.trace, refused.id),
    ]  # fmt: skip


def test_each_request_of_a_stream_is_followed_and_a_refused_one_says_why(
    followed: Service, spans: OtlpReceiver
) -> None:
    caller = Caller()
    with followed.client() as client:
        ended(client, client.post("/trace", json=linear(model="streamed")))
    with closing(triton.InferenceServerClient(followed.grpc_address)) as grpc:
        given = triton.InferInput("x", [1, 2], "FP32")
        given.set_data_from_numpy(np.array([[1, 2]], np.float32))
        heard: Queue[Any] = Queue()
        grpc.start_stream(lambda result, error: heard.put(error), headers=caller.headers)
        for model in ("streamed", "nothing"):
            grpc.async_stream_infer(model, [given])
            heard.get(timeout=ANSWER_S)
        grpc.stop_stream()

    wait_until(lambda: len(named(spans, f"{GRPC}/ModelStreamInfer", caller)) == 2)
    answered, refused = named(spans, f"{GRPC}/ModelStreamInfer", caller)
    assert [one.parent for one in (answered, refused)] == [caller.span] * 2
    assert "error.type" not in answered.attributes
    assert refused.attributes["error.type"] == "model-not-found"


def test_a_webhook_is_followed_from_who_submitted_to_who_is_told(
    followed: Service, spans: OtlpReceiver, receiver: Receiver
) -> None:
    caller = Caller()
    with followed.client() as client:
        url = f"http://127.0.0.1:{receiver.server_port}/hidden"
        webhook = client.post("/webhooks", json={"url": url}).json()
        ended(client, client.post("/trace", json=linear(force=True), headers=caller.headers))
        assert receiver.taken.wait(ANSWER_S)
        client.delete(f"/webhooks/{webhook['id']}").raise_for_status()

    wait_until(lambda: len(named(spans, "webhook", caller)) == 2)
    [submitted] = named(spans, "POST /trace", caller)
    first, second = named(spans, "webhook", caller)
    assert [one.parent for one in (first, second)] == [submitted.id] * 2
    statuses = [one.attributes["http.response.status_code"] for one in (first, second)]
    assert (statuses, "hidden" in str(first.attributes)) == ([503, 204], False)
    told = [headers["traceparent"] for headers, _ in receiver.got]
    assert told == [f"00-{caller.trace}-{one.id}-01" for one in (first, second)]


def test_without_a_receiver_nothing_has_a_span(start_service: StartService) -> None:
    service = start_service(FASTAPI_OTEL_AUTO_CONFIGURE="true")
    with service.client() as client:
        assert client.get("/models", headers=Caller().headers).status_code == 200
    assert service.terminate() == 0
    assert not [line for line in log_of(service.log) if "trace_id" in line]


def test_a_receiver_that_takes_nothing_keeps_nobody_waiting(start_service: StartService) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        service = start_service(OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{silent.getsockname()[1]}")
        with service.client() as client:
            assert ended(client, client.post("/trace", json=linear()))["verdict"] == "verified"
            assert client.post("/infer/linear", json=INPUTS).status_code == 200
        assert service.terminate() == 0


def test_a_protocol_that_is_not_spoken_is_refused_at_the_start(tmp_path: Path) -> None:
    environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
    command = [TRACEHOUSE, "serve", "--port", "0", "--state", tmp_path]
    refused = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)

    assert refused.returncode == 2
    assert "http/protobuf" in refused.stderr


def named(spans: OtlpReceiver, name: str, caller: Caller) -> list[ReceivedSpan]:
    return [one for one in spans.named(name) if one.trace == caller.trace]


def logged(service: Service, **members: str) -> list[dict[str, Any]]:
    """The lines of the log with these members, once there is one."""

    def found() -> list[dict[str, Any]]:
        return [line for line in log_of(service.log) if members.items() <= line.items()]

    wait_until(lambda: bool(found()))
    return found()


def log_of(file: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in file.read_bytes().splitlines() if line.startswith(b"{")]
