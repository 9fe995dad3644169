"""The largest bodies cost about what parsing them costs, on every route that reads one, whatever stands in them.

Processor time is compared with that of `json.loads` in the same run, never with a clock.
"""

import gc
import json
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from time import process_time
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from service.api.app import create_app
from service.api.context import AppContext
from service.domain.trace_request import TraceRequest, TraceStatus
from service.storage.transactions import Transactions
from tests.service.api.conftest import assert_problem, local, spec, with_limits
from tests.service.api.test_openapi import example, operations
from tracehouse.byte_units import MIB
from tracehouse.spec.example_inputs import INPUT_VALUES_MAX, InlineTensor
from tracehouse.spec.trace_spec import INIT_VALUES_MAX, TraceSpec

BYTES = 2 * MIB
# Times the processor time of json.loads of as many bytes of numbers. All of them take less than 5; a validation of
# each number takes 100.
COST_MAX = 12.0
ANSWER_MAX_BYTES = 20_000
JSON = {"content-type": "application/json"}
MULTIPART = "multipart/form-data"
# A request for a pool that nobody serves: it stays queued, and no worker reads it beside the test.
WAITS = {"devices": ["cuda"]}


@pytest.fixture
def app(context: AppContext) -> FastAPI:
    return create_app(with_limits(context, request_max_bytes=16 * MIB))


@pytest.fixture
def client(app: FastAPI) -> Iterator[TestClient]:
    with local(app) as client:
        yield client


def repeated(part: str, byte_size: int = BYTES) -> str:
    return ",".join([part] * (byte_size // (len(part) + 1)))


def numbered(part: str, count: int) -> str:
    return ",".join(part % number for number in range(count))


def submission(member: str, text: str) -> bytes:
    """A submission with that text as the value of a member."""
    others = {name: value for name, value in spec(**WAITS).items() if name != member}
    return f'{json.dumps(others)[:-1]},"{member}":{text}}}'.encode()


def tensor(data: str, *shape: int) -> str:
    return f'[{{"datatype":"FP32","shape":{json.dumps(shape)},"data":[{data}]}}]'


def source(**members: str) -> str:
    written = "".join(f',"{name}":{text}' for name, text in members.items())
    return f'{{"files":{{"net.py":"import torch"}},"entrypoint":"net:Net"{written}}}'


COUNT = BYTES // 2
ROWS = 300_000
ACCEPTED = {
    "numbers of a tensor": submission("example_inputs", tensor(repeated("1"), COUNT)),
    "fractions of a tensor": submission("example_inputs", tensor(repeated("0.5"), BYTES // 4)),
    "rows of a tensor": submission("example_inputs", tensor(repeated("[1]", ROWS * 4), ROWS, 1)),
    "names of numbers in a tensor": submission("example_inputs", tensor(repeated('"NaN"'), BYTES // 6)),
    "many tensors": submission("example_inputs", f"[[{','.join([tensor('1', 1)[1:-1]] * (INPUT_VALUES_MAX - 2))}]]"),
    "as many numbers as may be outside tensors": submission(
        "example_inputs", f"[[{repeated('1', 2 * (INPUT_VALUES_MAX - 2))}]]"
    ),
    "arguments of the class": submission("source", source(init=f'{{"args":[{repeated("1", INIT_VALUES_MAX)}]}}')),
    "a source of quotes and backslashes": submission(
        "source", f'{{"files":{{"net.py":{json.dumps(chr(34) * (BYTES // 4))}}},"entrypoint":"net:Net"}}'
    ),
    "a source of colons": submission("source", f'{{"files":{{"net.py":"{":" * BYTES}"}},"entrypoint":"net:Net"}}'),
}
REFUSED = {
    "numbers outside of tensors": submission("example_inputs", f"[[{repeated('1')}]]"),
    "numbers in further calls": submission("check", f'{{"check_inputs":[[[{repeated("1")}]]]}}'),
    "one number that is none": submission("example_inputs", tensor(repeated("1") + ",null", COUNT + 1)),
    "an object among numbers": submission("example_inputs", tensor(repeated("1") + ",{}", COUNT + 1)),
    "arguments of the class beyond the limit": submission("source", source(init=f'{{"args":[{repeated("1")}]}}')),
    "unknown members": submission("x", f"0,{numbered(chr(34) + 'm%d' + chr(34) + ':0', 60_000)}"),
    "members beyond the limit": f"{{{numbered(chr(34) + 'm%d' + chr(34) + ':0', 300_000)}}}".encode(),
    "one long name": submission(
        "methods", f'{{"{"m" * BYTES}":{{{numbered(chr(34) + "m%d" + chr(34) + ":0", 60_000)}}}}}'
    ),
    "a method with a long name": submission("check", f'{{"check_inputs":[{{"method":"{"m" * BYTES}"}}]}}'),
    "a long entrypoint": submission("source", f'{{"files":{{"net.py":""}},"entrypoint":"{"a." * COUNT}"}}'),
    "further calls that are none": submission("check", f'{{"check_inputs":[{repeated("0")}]}}'),
    "bucket sizes that are none": submission("buckets", f'{{"seq":[{repeated(chr(34) + "x" + chr(34))}]}}'),
    "dynamic dims that are none": submission(
        "dynamic", f'{{"x":{{{numbered(chr(34) + "d%d" + chr(34) + ":0", 60_000)}}}}}'
    ),
    "files of a source": submission(
        "source", f'{{"files":{{{numbered(chr(34) + "m%d" + chr(34) + ":0", 60_000)}}},"entrypoint":"net:Net"}}'
    ),
    "tensors that are none": submission(
        "example_inputs", f"[[{repeated('{' + chr(34) + 'datatype' + chr(34) + ':0}', 15 * INPUT_VALUES_MAX)}]]"
    ),
    "an integer of millions of digits": submission("accept_unsound", "1" * BYTES),
    "lists in lists": submission("example_inputs", "[" * COUNT + "]" * COUNT),
    "lists beside lists": submission("example_inputs", f"[{repeated('[]')}]"),
    "a member that stands twice, the last": submission(
        "x", f'{{{numbered(chr(34) + "m%d" + chr(34) + ":0", 60_000)},"m0":0}}'
    ),
    "quotes that never end": b'{"a":"' + rb"\"" * COUNT,
}
INFERENCES = {
    "inputs that are none": f'{{"inputs":[{repeated("1")}]}}'.encode(),
    "numbers of an input": f'{{"inputs":{{"x":[{repeated("1")}]}}}}'.encode(),
    "rows of an input": f'{{"inputs":{{"x":[{repeated("[1]", 4 * ROWS)}]}}}}'.encode(),
    "a long name of an input": f'{{"inputs":{{"{"x" * BYTES}":1}}}}'.encode(),
    "many inputs": f'{{"inputs":{{{numbered(chr(34) + "x%d" + chr(34) + ":0", 60_000)}}}}}'.encode(),
    "many outputs": (
        f'{{"inputs":{{"x":[[1,2,3,4]]}},"outputs":[{repeated("{" + chr(34) + "name" + chr(34) + ":0}", 600_000)}]}}'
    ).encode(),
    "arguments": f'{{"args":[{repeated("1")}]}}'.encode(),
}


@cache
def parsing_s(number: int) -> float:
    """The processor time that json.loads takes for BYTES bytes of numbers, taken anew for each number."""
    text = f"[{repeated('1')}]"

    def once() -> float:
        before = process_time()
        json.loads(text)
        return process_time() - before

    return min(once() for _ in range(3))


def cost(send: Callable[[], httpx.Response]) -> tuple[float, httpx.Response]:
    """How many times as much processor time it takes, and the answer; the least of three tries, if one is too much."""
    for number in range(3):
        gc.freeze()  # to go through what other tests have left is no cost of this request
        before = process_time()
        answer = send()
        times = (process_time() - before) / parsing_s(number)
        if times < COST_MAX:
            break
    return times, answer


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_may_be_submitted_costs_little_more_than_parsing_it(client: TestClient, name: str) -> None:
    times, answer = cost(lambda: client.post("/trace", content=ACCEPTED[name], headers=JSON))

    assert answer.status_code == 202, answer.text[:300]
    assert times < COST_MAX


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_costs_no_more_and_is_not_repeated(client: TestClient, name: str) -> None:
    times, answer = cost(lambda: client.post("/trace", content=REFUSED[name], headers=JSON))

    assert answer.status_code in (400, 422), answer.text[:300]
    assert len(answer.content) < ANSWER_MAX_BYTES
    assert times < COST_MAX


def test_no_route_takes_more_for_any_of_them(client: TestClient) -> None:
    """As JSON, and as the part `request` of an upload; routes that read a small body refuse all of them."""
    client.post("/trace", json=spec(), headers={"prefer": "wait=30"})
    digest = client.get("/models/linear").json()["versions"][0]["artifacts"]["cpu"]
    document = client.get("/openapi.json").json()
    reading = [
        (method, path, operation) for method, path, operation in operations(document) if "requestBody" in operation
    ]
    assert {path for _, path, _ in reading} >= {"/trace", "/infer", "/infer/{model}", "/artifacts/{digest}/check"}
    for method, path, operation in reading:
        given = {one["name"]: example(one) or digest for one in operation.get("parameters", []) if one["in"] == "path"}
        for name, body in {**REFUSED, **INFERENCES}.items():
            named = body[:-1] + b',"model":"linear"}' if path == "/infer" and name in INFERENCES else body
            for is_part in {content == MULTIPART for content in operation["requestBody"]["content"]}:
                times, answer = cost(partial(send, client, method, path.format(**given), named, is_part=is_part))

                assert 400 <= answer.status_code < 500, (path, name, answer.text[:300])
                assert len(answer.content) < ANSWER_MAX_BYTES, (path, name)
                assert times < COST_MAX, (path, name)


def send(client: TestClient, method: str, path: str, body: bytes, *, is_part: bool) -> httpx.Response:
    if is_part:
        return client.request(method, path, files=[("request", (None, body))])
    return client.request(method, path, content=body, headers=JSON)


def test_status_source_and_cancel_do_not_read_what_else_was_submitted(client: TestClient, state_dir: Path) -> None:
    request = client.post("/trace", json=spec(**WAITS)).json()
    with sqlite3.connect(state_dir / "tracehouse.db") as database:
        assert database.execute("UPDATE submissions SET spec = 'unreadable'").rowcount == 1

    assert client.get(f"/trace/{request['id']}").json() == request
    assert client.get(f"/trace/{request['id']}/source").json() == spec()["source"]
    assert client.get("/trace").json()["trace_requests"][0]["id"] == request["id"]
    assert client.post("/trace", json=spec(**WAITS)).json()["id"] == request["id"]
    assert client.post(f"/trace/{request['id']}/cancel").json()["state"] == "cancelled"


def test_nothing_of_a_trace_request_is_validated_in_a_transaction(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others wait for a transaction."""
    opened, validated = threading.local(), []
    for kind in ("read", "write"):
        monkeypatch.setattr(Transactions, kind, noting(getattr(Transactions, kind), opened))
    for model in (TraceSpec, TraceStatus, TraceRequest, InlineTensor):
        validate = model.model_validate

        def note(value: Any, validate: Callable[..., Any] = validate, **options: Any) -> Any:
            validated.append(getattr(opened, "number", 0))
            return validate(value, **options)

        monkeypatch.setattr(model, "model_validate", note)
    request = client.post("/trace", json=spec(**WAITS)).json()
    client.get(f"/trace/{request['id']}")
    client.get("/trace")
    client.post("/trace", json=spec(**WAITS))
    client.post(f"/trace/{request['id']}/cancel")
    client.post("/trace", json=spec(), headers={"prefer": "wait=30"})

    assert len(validated) > 5
    assert set(validated) == {0}


def noting(transaction: Callable[[Transactions], Any], opened: threading.local) -> Callable[[Transactions], Any]:
    @contextmanager
    def noted(self: Transactions) -> Iterator[Any]:
        opened.number = getattr(opened, "number", 0) + 1
        try:
            with transaction(self) as connection:
                yield connection
        finally:
            opened.number -= 1

    return noted


def test_a_member_that_stands_twice_is_refused_by_its_name_on_every_route(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    for method, path, operation in operations(document):
        if "requestBody" not in operation:
            continue
        given = {one["name"]: "0" * 64 for one in operation.get("parameters", []) if one["in"] == "path"}
        given |= {name: f"sha256:{'0' * 64}" for name in given if name == "digest"} | {
            name: "linear" for name in given if name in ("name", "model", "alias", "tenant")
        }
        given |= {name: "1" for name in given if name == "version"}
        client.post("/trace", json=spec(), headers={"prefer": "wait=30"})
        for content in operation["requestBody"]["content"]:
            twice = b'{"model": "linear",\n "a": {"b:": 0, "b:": 1}}'
            answer = send(client, method, path.format(**given), twice, is_part=content == MULTIPART)

            problem = assert_problem(answer, 400, "malformed-json")
            assert "'b:'" in problem["detail"]
            assert (problem["member"], problem["line"], problem["column"]) == ("b:", 2, 17)
