"""Large bodies are parsed, and pictures drawn, in processes of their own, on a service that listens."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import httpx
import numpy as np
import orjson
import psutil
import pytest

from service.api.context import AppContext
from service.api.http.body import SMALL_BYTES
from service.processes import in_background, in_process
from service.sandbox.zygote import Zygote
from service.storage.database import Store
from service.turns import Turns
from tests.conftest import PATIENCE_S, NewStore, wait_until
from tests.service.api.conftest import (
    MANY_TURNS,
    Register,
    assert_problem,
    serving_runners,
    spec,
    with_limits,
)
from tracehouse.byte_units import MIB
from tracehouse.contract.contract import Contract, MethodClaim
from tracehouse.contract.regions import Region, Span

ROWS = 10_000
X = [[float(row), -1.0] for row in range(ROWS)]
ANSWER = [max(value, 0.0) for row in X for value in row]
TENSOR = {"name": "input", "datatype": "FP32", "shape": [ROWS, 2], "data": X}


@pytest.fixture(scope="module")
def store(new_store: NewStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    store = new_store(tmp_path_factory.mktemp("large"))
    yield store
    store.close()


@pytest.fixture(scope="module")
def address(store: Store, torch_zygote: Zygote, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    def change(context: AppContext) -> AppContext:
        return replace(
            with_limits(context, request_max_bytes=MIB),
            parsings=Turns(MANY_TURNS, in_process),
            submissions=Turns(MANY_TURNS, in_background),
            drawings=Turns(MANY_TURNS, in_background),
        )

    with serving_runners(store, torch_zygote, tmp_path_factory.mktemp("state"), change=change) as address:
        yield f"http://{address}"


@pytest.fixture(scope="module")
def models(store: Store, trace: Any, register: Register) -> None:
    """`relu` takes up to 40,000 rows of two, and `sum` a second tensor beside the first."""
    import torch

    class Sum(torch.nn.Module):
        def forward(self, x, bias):
            return x + bias

    region = Region(spans={"batch": [Span(low=0, high=40_000)]}, basis="proven")
    claim = MethodClaim(shapes={"input": ("batch", 2)}, fixed={"input": {"1": "model"}}, regions=[region])
    relu = trace(store.blobs, torch.nn.ReLU(), torch.zeros(2, 2))
    method = relu.contract.method("forward").with_claim(claim, [])
    register("relu", relu.model_copy(update={"contract": Contract(methods={"forward": method})}))
    register("sum", trace(store.blobs, Sum(), torch.zeros(ROWS, 2), torch.zeros(2)))


@pytest.fixture
def http(address: str, models: None) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=address, timeout=PATIENCE_S) as client:
        yield client


def values(reply: httpx.Response) -> list[float]:
    assert reply.status_code == 200, reply.text
    (output,) = reply.json()["outputs"]
    return np.ravel(output["data"]).tolist()  # type: ignore[no-any-return]


def helpers() -> list[psutil.Process]:
    """The processes of this service that parse and draw."""
    return [each for each in psutil.Process().children() if "service.processes" in " ".join(each.cmdline())]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/infer/relu", {"args": [X]}),
        ("/infer/relu", {"inputs": {"input": X}}),
        ("/infer/relu", {"inputs": [TENSOR]}),
        ("/infer", {"model": "relu", "args": [X]}),
        ("/v2/models/relu/infer", {"inputs": [TENSOR]}),
    ],
)
def test_a_large_body_is_answered_as_a_small_one_is(http: httpx.Client, path: str, body: Any) -> None:
    assert len(orjson.dumps(body)) > SMALL_BYTES

    assert values(http.post(path, json=body)) == ANSWER


def test_json_and_bytes_may_stand_in_one_large_body(http: httpx.Client) -> None:
    bias = np.array([1.0, 2.0], np.float32).tobytes()
    behind = {"name": "bias", "datatype": "FP32", "shape": [2], "parameters": {"binary_data_size": len(bias)}}
    head = orjson.dumps({"inputs": [TENSOR | {"name": "x"}, behind]})

    reply = http.post(
        "/v2/models/sum/infer", content=head + bias, headers={"Inference-Header-Content-Length": str(len(head))}
    )

    assert values(reply) == [value for row in X for value in (row[0] + 1.0, row[1] + 2.0)]


@pytest.mark.parametrize(
    ("path", "body", "slug", "pointer"),
    [
        ("/infer/relu", {"args": [[*X, [1.0]]]}, "shape-mismatch", None),
        ("/infer/relu", {"args": [X], "outputs": [{"name": "no"}]}, "invalid-request", "/outputs/0/name"),
        ("/infer", {"args": [X]}, "invalid-request", "/model"),
        ("/infer", {"model": 1, "args": [X]}, "invalid-request", "/model"),
        (
            "/v2/models/relu/infer",
            {"inputs": [TENSOR], "outputs": [{"name": "no"}]},
            "invalid-request",
            "/outputs/0/name",
        ),
    ],
)
def test_what_is_wrong_in_a_large_body_is_named(
    http: httpx.Client, path: str, body: Any, slug: str, pointer: str | None
) -> None:
    problem = assert_problem(http.post(path, json=body), 422, slug)

    assert pointer is None or [each["pointer"] for each in problem["errors"]] == [pointer]


def test_a_large_submission_is_taken_or_its_fault_is_named(http: httpx.Client) -> None:
    data = {"datatype": "FP32", "shape": [ROWS, 4], "data": [[1.0] * 4] * ROWS}

    taken = http.post("/trace", json=spec(example_inputs=[data]))
    wrong = http.post("/trace", json=spec(more=1, example_inputs=[data]))

    assert taken.status_code in (200, 202), taken.text
    assert [each["pointer"] for each in assert_problem(wrong, 422, "invalid-request")["errors"]] == ["/more"]


def test_a_large_submission_gives_way_to_large_requests_for_inference(http: httpx.Client) -> None:
    assert values(http.post("/infer/relu", json={"args": [X]})) == ANSWER
    answering = [each for each in helpers() if each.nice() == os.nice(0)]
    for each in answering:
        each.suspend()
    try:
        data = {"datatype": "FP32", "shape": [ROWS, 4], "data": [[1.0] * 4] * ROWS}
        taken = http.post("/trace", json=spec(example_inputs=[data]))
    finally:
        for each in answering:
            each.resume()

    assert answering
    assert taken.status_code in (200, 202), taken.text


def test_large_text_that_is_no_json_is_refused(http: httpx.Client) -> None:
    text = b'{"args": [[' + b"1," * SMALL_BYTES

    problem = assert_problem(http.post("/infer/relu", content=text), 400, "malformed-json")

    assert problem["line"] == 1


def test_small_requests_are_answered_while_a_large_body_is_parsed(http: httpx.Client) -> None:
    assert values(http.post("/infer/relu", json={"args": [X]})) == ANSWER
    for each in helpers():
        each.suspend()
    with ThreadPoolExecutor(1) as caller:
        try:
            large = caller.submit(http.post, "/infer/relu", json={"args": [X]})
            assert values(http.post("/infer/relu", json={"args": [[[1.0, -1.0]]]})) == [1.0, 0.0]
            assert not large.done()
        finally:
            for each in helpers():
                each.resume()
        assert values(large.result()) == ANSWER


def test_a_process_that_is_killed_is_replaced_and_the_request_answered(http: httpx.Client) -> None:
    assert values(http.post("/infer/relu", json={"args": [X]})) == ANSWER
    stopped = helpers()
    for each in stopped:
        each.suspend()
    with ThreadPoolExecutor(1) as caller:
        large = caller.submit(http.post, "/infer/relu", json={"args": [X]})
        for each in stopped:
            os.kill(each.pid, signal.SIGKILL)
        wait_until(lambda: not any(each.is_running() and each.status() != "zombie" for each in stopped))

        assert values(large.result()) == ANSWER


def test_pictures_and_reports_are_made_in_processes_too(http: httpx.Client) -> None:
    traced = http.post("/trace", json=spec(), headers={"prefer": "wait=30"}).json()["artifacts"][0]["digest"]

    assert http.get(f"/artifacts/{traced}/graph.svg").text.startswith("<svg")
    assert http.get(f"/artifacts/{traced}/report").text.startswith("<!doctype html>")
    assert_problem(http.get(f"/artifacts/{traced}/printouts/code", params={"format": "svg"}), 422, "invalid-request")
