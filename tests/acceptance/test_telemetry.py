"""Traces of OpenTelemetry, as a receiver of its protocol gets them."""

import os
import socket
import subprocess
from contextlib import closing
from pathlib import Path
from queue import Queue
from typing import Any

import numpy as np
import orjson
import pytest
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from tests.acceptance.conftest import ANSWER_S, TRACEHOUSE, StartService, ended, linear
from tests.acceptance.test_webhooks import Receiver, receiver
from tests.conftest import wait_until
from tests.otlp_receiver import OtlpReceiver

__all__ = ["receiver"]  # the fixture

GRPC = "inference.GRPCInferenceService"
CALLER = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")
TRACEPARENT = {"traceparent": f"00-{CALLER[0]}-{CALLER[1]}-01"}
INPUTS = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1.0, 2.0]}]}


def test_a_request_is_followed_from_its_caller_through_the_queue_into_the_stages_of_its_trace(
    start_service: StartService,
) -> None:
    with OtlpReceiver.open() as receiver:
        service = start_service(**receiver.environment)
        with service.client() as client:
            request = ended(client, client.post("/trace", json=linear(), headers=TRACEPARENT))

        wait_until(lambda: bool(receiver.named("trace")))
        [submitted] = [one for one in receiver.named("POST /trace") if one.trace == CALLER[0]]
        [attempt] = receiver.named("trace")
        assert (submitted.service, submitted.parent) == ("tracehouse", CALLER[1])
        assert submitted.attributes["http.response.status_code"] == 202
        assert (attempt.trace, attempt.parent) == (CALLER[0], submitted.id)
        assert attempt.attributes["tracehouse.trace_request"] == request["id"]
        assert (attempt.attributes["tracehouse.attempt"], attempt.attributes["tracehouse.end"]) == (1, "verified")
        # It lasts until its turn, so it began before the span around it.
        assert receiver.children(attempt) == [
            "queue",
            "loading",
            "tracing",
            "checking",
            "printing",
            "verifying",
            "storing",
        ]
        [checking] = receiver.named("checking")
        assert "check observe" in receiver.children(checking)
        assert service.terminate() == 0

    lines = [line for line in log_of(service.log) if line.get("trace_request") == request["id"]]
    [end] = [line for line in lines if line["message"] == "trace ended"]
    assert (end["trace_id"], end["span_id"]) == (CALLER[0], attempt.id)


def test_an_inference_is_followed_into_its_runner(start_service: StartService) -> None:
    with OtlpReceiver.open() as receiver:
        service = start_service(**receiver.environment, OTEL_SERVICE_NAME="models")
        with service.client() as client:
            ended(client, client.post("/trace", json=linear()))
            for _ in range(2):  # the second one needs nothing that is not there
                answer = client.post("/infer/linear", json=INPUTS, headers=TRACEPARENT)
                assert answer.status_code == 200, answer.text
            assert client.post("/infer/linear", json=INPUTS).status_code == 200
            assert client.get("/livez").status_code == 200
            assert client.get("/models", params={"none": "x" * 30_000}).status_code == 200

        wait_until(lambda: len(receiver.named("POST /infer/{model}")) == 3 and bool(receiver.named("GET /models")))
        asked = receiver.named("POST /infer/{model}")
        assert [one.trace == CALLER[0] for one in asked] == [True, True, False]
        for one in asked:
            [answered] = [inner for inner in receiver.named("infer") if inner.parent == one.id]
            assert receiver.children(answered) == ["wait for a runner", "runner"]
            assert (answered.attributes["tracehouse.model"], answered.attributes["tracehouse.version"]) == ("linear", 1)
        [listed] = receiver.named("GET /models")
        assert len(listed.attributes["url.query"]) == 1024
        assert {one.service for one in receiver.spans} == {"models"}
        assert not receiver.named("GET /livez")
        assert service.terminate() == 0

    [line, *_] = [line for line in log_of(service.log) if line.get("path") == "/infer/linear"]
    assert (line["trace_id"], line["span_id"]) == (CALLER[0], asked[0].id)


def test_a_call_of_grpc_and_the_live_check_of_its_answer_are_followed(start_service: StartService) -> None:
    with OtlpReceiver.open() as receiver:
        service = start_service(**receiver.environment, GRPC_PORT="0", LIVE_CHECK_SHARE="1")
        with service.client() as client:
            ended(client, client.post("/trace", json=linear()))
        with closing(triton.InferenceServerClient(service.grpc_address)) as grpc:
            given = triton.InferInput("x", [1, 2], "FP32")
            given.set_data_from_numpy(np.array([[1, 2]], np.float32))
            assert grpc.infer("linear", [given], headers=TRACEPARENT).as_numpy("output").shape == (1, 3)
            with pytest.raises(InferenceServerException):
                grpc.infer("nothing", [given], headers=TRACEPARENT)
            assert grpc.is_server_live()

        wait_until(lambda: bool(receiver.named("live check")) and len(receiver.named(f"{GRPC}/ModelInfer")) == 2)
        answered, refused = receiver.named(f"{GRPC}/ModelInfer")
        assert [(one.trace, one.parent) for one in (answered, refused)] == [CALLER, CALLER]
        assert answered.attributes == {"rpc.system": "grpc", "rpc.service": GRPC, "rpc.method": "ModelInfer"}
        assert refused.attributes["error.type"] == "model-not-found"
        assert receiver.children(answered) == ["infer"]
        [inference] = [one for one in receiver.named("infer") if one.parent == answered.id]
        assert {*receiver.children(inference)} == {"wait for a runner", "runner", "live check"}
        [compared] = receiver.named("live check")
        assert compared.attributes["tracehouse.result"] == "equal"
        assert not receiver.named(f"{GRPC}/ServerLive")
        assert service.terminate() == 0

    lines = [line for line in log_of(service.log) if line.get("path") == f"/{GRPC}/ModelInfer"]
    assert [(line["trace_id"], line["span_id"]) for line in lines] == [
        (CALLER[0], answered.id), (CALLER[0], refused.id),
    ]  # fmt: skip


def test_each_request_of_a_stream_is_followed_and_a_refused_one_says_why(start_service: StartService) -> None:
    with OtlpReceiver.open() as receiver:
        service = start_service(**receiver.environment, GRPC_PORT="0")
        with service.client() as client:
            ended(client, client.post("/trace", json=linear()))
        with closing(triton.InferenceServerClient(service.grpc_address)) as grpc:
            given = triton.InferInput("x", [1, 2], "FP32")
            given.set_data_from_numpy(np.array([[1, 2]], np.float32))
            heard: Queue[Any] = Queue()
            grpc.start_stream(lambda result, error: heard.put(error), headers=TRACEPARENT)
            for model in ("linear", "nothing"):
                grpc.async_stream_infer(model, [given])
                heard.get(timeout=ANSWER_S)
            grpc.stop_stream()

        wait_until(lambda: len(receiver.named(f"{GRPC}/ModelStreamInfer")) == 2)
        answered, refused = receiver.named(f"{GRPC}/ModelStreamInfer")
        assert [(one.trace, one.parent) for one in (answered, refused)] == [CALLER, CALLER]
        assert "error.type" not in answered.attributes
        assert refused.attributes["error.type"] == "model-not-found"
        assert service.terminate() == 0


def test_a_webhook_is_followed_from_who_submitted_to_who_is_told(
    start_service: StartService, receiver: Receiver
) -> None:
    with OtlpReceiver.open() as spans:
        service = start_service(**spans.environment, WEBHOOK_NETWORKS="127.0.0.0/8")
        with service.client() as client:
            url = f"http://127.0.0.1:{receiver.server_port}/hidden"
            client.post("/webhooks", json={"url": url})
            ended(client, client.post("/trace", json=linear(), headers=TRACEPARENT))
        assert receiver.taken.wait(ANSWER_S)

        wait_until(lambda: len(spans.named("webhook")) == 2)
        [submitted] = [one for one in spans.named("POST /trace") if one.trace == CALLER[0]]
        first, second = spans.named("webhook")
        assert [(one.trace, one.parent) for one in (first, second)] == [(CALLER[0], submitted.id)] * 2
        statuses = [one.attributes["http.response.status_code"] for one in (first, second)]
        assert (statuses, "hidden" in str(first.attributes)) == ([503, 204], False)
        told = [headers["traceparent"] for headers, _ in receiver.got]
        assert told == [f"00-{CALLER[0]}-{one.id}-01" for one in (first, second)]
        assert service.terminate() == 0


def test_without_a_receiver_nothing_has_a_span(start_service: StartService) -> None:
    service = start_service(FASTAPI_OTEL_AUTO_CONFIGURE="true")
    with service.client() as client:
        assert client.get("/models", headers=TRACEPARENT).status_code == 200
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


def log_of(file: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in file.read_bytes().splitlines() if line.startswith(b"{")]
