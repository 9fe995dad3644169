"""What the client says of a server whose answers have the members of a service, but not their types, or never end."""

from collections.abc import Callable
from itertools import count
from typing import Any

import httpx
import numpy as np
import pytest

from tests.damaged_documents import damaged, put
from tracehouse import Client
from tracehouse.client import errors, flow

ID = "0" * 32
CONTRACT = {
    "methods": {
        "forward": {
            "arguments": [{"name": "x", "structure": {"tensor": "x"}}],
            "inputs": [{"name": "x", "datatype": "FP32", "shape": [2], "example": [2]}],
            "outputs": [{"name": "y", "datatype": "FP32", "shape": [2]}],
            "returns": {"tensor": "y"},
        }
    }
}
FINDING = {"kind": "branch", "detail": "a branch", "line": 3}
TRACE = {
    "id": ID, "state": "succeeded", "stage": "done", "progress": 1.0, "verdict": "verified", "findings": [FINDING],
    "model": {"name": "net", "version": 1}, "artifacts": [{"device": "cpu", "digest": "sha256:1"}], "problem": None,
    "links": {"outputs": "/outputs"}, "waiting": None,
}  # fmt: skip
FAILED = {
    "title": "No",
    "code": "no",
    "errors": [{"pointer": "/model", "detail": "it is so"}],
    "file": "n.py",
    "line": 1,
}
VERSION = {
    "version": 1, "verdict": "verified", "artifacts": {"cpu": "sha256:1"}, "buckets": [], "created_at": "2026",
}  # fmt: skip
BUCKETS = [{"device": "cpu", "digest": "sha256:1", "sizes": {"n": 2}}]
MODEL = {
    "name": "net", "default_version": 1, "versions": [VERSION], "aliases": [{"alias": "prod", "version": 1}],
    "bitwise": False, "idle_s": 600.0, "pinned": True, "threads": 4, "replicas": 2,
}  # fmt: skip
KEY = {
    "prefix": "th_1", "name": "me", "tenant": "default", "scopes": ["read"], "created_at": "2026", "expires_at": None,
    "last_used_at": None, "revoked_at": None, "requests_per_minute": None, "upload_max_bytes": None, "key": "th_1_2",
}  # fmt: skip
TENSOR = {"name": "y", "datatype": "FP32", "shape": [2], "data": [1.0, 2.0]}
REPLIES: dict[str, Any] = {
    f"GET /trace/{ID}": TRACE,
    "GET /trace": {"trace_requests": [TRACE], "next_cursor": None},
    "POST /trace": TRACE,
    "GET /limits": {"upload_max_bytes": 2**30, "request_max_bytes": 2**30},
    "GET /artifacts/sha256:1": {
        "digest": "sha256:1", "verdict_sentence": "verified", "contract": CONTRACT, "versions": {"tracehouse": "1"},
    },
    "GET /outputs": {"calls": [{"outputs": [TENSOR], "returns": {"tensor": "y"}}]},
    "GET /models": {"models": [MODEL], "next_cursor": None},
    "GET /models/net": MODEL,
    "GET /models/buckets": MODEL | {"versions": [VERSION | {"buckets": BUCKETS}]},
    "POST /models/net/promote": {"previous_version": None},
    "GET /models/net/aliases/prod": {"etag": "1"},
    "PUT /models/net/aliases/prod": {},
    "GET /keys": {"keys": [KEY], "next_cursor": None},
    "POST /keys": KEY,
    "GET /environments": {"environments": [{"name": "vision", "packages": [{"name": "timm", "version": "1"}]}]},
    "POST /v2/models/net@prod/infer": {"model_version": "1", "outputs": [TENSOR], "parameters": {}},
    "POST /v2/models/buckets/infer": {"model_version": "1", "outputs": [TENSOR], "parameters": {}},
}  # fmt: skip
ASK: dict[str, Callable[[Client], Any]] = {
    "result": lambda client: read_all(client.get_trace(ID)),
    "outputs": lambda client: client.get_trace(ID).outputs(),
    "trace": lambda client: client.trace("torch.nn:Linear", [np.ones((600, 600))]),
    "list_traces": lambda client: [repr(one) + one._repr_html_() for one in client.list_traces()],
    "models.list": lambda client: client.models.list(),
    "models.promote": lambda client: client.models.promote("net", 1),
    "models.set_alias": lambda client: client.models.set_alias("net", "prod", 1),
    "keys.list": lambda client: client.keys.list(),
    "keys.create": lambda client: client.keys.create("me"),
    "environments": lambda client: client.environments(),
    "infer": lambda client: client.infer("net@prod", np.ones(2, np.float32)),
    "infer in buckets": lambda client: client.infer("buckets", np.ones(2, np.float32)),
}


def read_all(trace: Any) -> Any:
    result = trace.result(progress=False)
    return (
        trace.printout(),
        result.served,
        result.verdict,
        result.findings,
        result.contract,
        result.sentence,
        trace._repr_html_(),
    )


def answering(replies: dict[str, Any], asked: set[str] | None = None) -> Client:
    def handle(request: httpx.Request) -> httpx.Response:
        name = f"{request.method} {request.url.path}"
        if asked is not None:
            asked.add(name)
        if name not in replies:
            return httpx.Response(200, text="text")
        reply = httpx.Response(200, json=replies[name])
        if not name.endswith("/infer"):
            return reply
        length = {"inference-header-content-length": str(len(reply.content))}
        return httpx.Response(200, content=reply.content + np.ones(2, np.float32).tobytes(), headers=length)

    return Client("http://service", transport=httpx.MockTransport(handle))


@pytest.mark.parametrize("ask", ASK.values(), ids=[*ASK])
def test_members_of_wrong_types_end_in_an_error_of_the_client(ask: Callable[[Client], Any]) -> None:
    asked: set[str] = set()
    ask(answering(REPLIES, asked))

    others = []
    for name in asked & {*REPLIES}:
        for what, changed in damaged(REPLIES[name]):
            try:
                ask(answering(REPLIES | {name: changed}))
            except errors.ClientError:
                continue
            except Exception as error:  # noqa: BLE001 - any other is the fault that is looked for
                others.append(f"{name}{what}: {error!r}")
    assert others == []


def test_a_failure_in_another_form_is_told() -> None:
    failed = TRACE | {"state": "failed", "problem": FAILED, "verdict": None, "artifacts": [], "model": None}
    for _, changed in damaged({"problem": FAILED}):
        with pytest.raises(errors.ClientError):
            answering({f"GET /trace/{ID}": failed | changed}).get_trace(ID).result(progress=False)


def test_what_is_wrong_is_named_with_its_place() -> None:
    replies = REPLIES | {"GET /models/net": put(MODEL, "versions", [VERSION, VERSION | {"artifacts": {"cpu": 5}}])}

    with pytest.raises(errors.UnexpectedReply, match=r"\['versions'\]\[1\]\['artifacts'\]\['cpu'\].*valid string"):
        answering(replies).models.get("net")


def test_a_list_that_comes_to_the_same_page_again_ends() -> None:
    pages = iter(["one", "two", "one", "two", "one"])

    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"models": [MODEL], "next_cursor": next(pages)})

    with pytest.raises(errors.UnexpectedReply, match=r"/models .*would never end"):
        Client("http://service", transport=httpx.MockTransport(answer)).models.list()


@pytest.mark.parametrize("is_new", [False, True], ids=["the same models", "new models"])
def test_a_list_whose_every_page_has_a_new_cursor_ends(is_new: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow, "PAGES_MAX", 5)
    numbers = count()

    def answer(_: httpx.Request) -> httpx.Response:
        number = next(numbers)
        model = MODEL | ({"name": f"net-{number}"} if is_new else {})
        return httpx.Response(200, json={"models": [model], "next_cursor": str(number)})

    with pytest.raises(errors.UnexpectedReply, match=r"/models .*would never end"):
        Client("http://service", transport=httpx.MockTransport(answer)).models.list()
    assert next(numbers) == (5 if is_new else 2)


def test_a_list_that_is_longer_than_was_asked_for_is_cut() -> None:
    traces = {"trace_requests": [TRACE, TRACE, TRACE], "next_cursor": None}

    assert len(answering({"GET /trace": traces}).list_traces(2)) == 2


def test_a_trace_that_never_ends_and_has_no_events_is_not_waited_for() -> None:
    with pytest.raises(errors.UnexpectedReply, match="has no events"):
        answering({f"GET /trace/{ID}": TRACE | {"state": "running"}}).get_trace(ID).wait(progress=False)


@pytest.mark.parametrize("data", ['{"progress": "all"}', '{"expected_start": "soon"}', '{"budget_left_s": []}', "[]"])
def test_an_event_in_another_form_is_told(data: str) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/events"):
            return httpx.Response(200, text=f"event: layer\ndata: {data}\n\n")
        return httpx.Response(200, json=TRACE | {"state": "running"})

    with pytest.raises(errors.UnexpectedReply):
        Client("http://service", transport=httpx.MockTransport(answer)).get_trace(ID).wait(lambda *_: None)
