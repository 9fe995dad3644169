"""Who may ask for what: keys and scopes over every route there is, rates and sizes of each key."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from fastapi.testclient import TestClient

from service.api.app import create_app
from service.api.context import AppContext
from service.api.http import access
from service.domain.api_key import Scope
from service.engine.embedded import EmbeddedEngine
from service.storage.database import Store
from tests.conftest import PATIENCE_S, NewStore
from tests.service.api.conftest import (
    REQUEST_MAX_BYTES,
    SIGNER,
    UPLOAD_MAX_BYTES,
    assert_problem,
    authorized,
    make_context,
    running,
    serving,
    spec,
    with_limits,
)
from tests.service.api.test_submission import MULTIPART, NET, UPLOADED, multipart, request

# Whatever else is served asks for a key. Who adds to this list says that strangers may have it.
PUBLIC = {
    "/", "/docs", "/docs/assets", "/livez", "/readyz", "/openapi.json", "/problems", "/problems/{code}",
    "/findings", "/findings/{kind}", "/v2", "/v2/health/live", "/v2/health/ready",
    "/signing-keys", "/signing-keys/{id}",
    "/studio", "/studio/static", "/studio/trace/{id}", "/studio/trace/{id}/graph", "/studio/models/{name}",
}  # fmt: skip

# Something for each parameter of a path: a route with another one belongs here, too.
FILLED = {
    "id": "0" * 32,
    "digest": "sha256:" + "0" * 64,
    "kind": "graph",
    "name": "linear",
    "alias": "prod",
    "version": "1",
    "model": "linear",
    "number": "0",
    "rest": "status",
    "tenant": "acme",
    "prefix": "th_12345678",
}


def scope_of(method: str, path: str) -> Scope:
    """What it should take to be let in."""
    if path.startswith(("/infer", "/v2")):
        return Scope.INFER
    if method == "POST" and (path.startswith("/trace") or path == "/artifacts/{digest}/check"):
        return Scope.TRACE
    if (method, path) == ("DELETE", "/trace/{id}"):
        return Scope.TRACE
    if path == "/limits":
        return Scope.TRACE
    if path == "/metrics":
        return Scope.METRICS
    if path in ("/audit", "/webhooks", "/keys"):
        return Scope.ADMIN
    if path.startswith("/tenants"):
        return Scope.OPERATOR
    return Scope.READ if method == "GET" else Scope.ADMIN


APP = create_app(None)  # type: ignore[arg-type] # its routes alone, which ask it for nothing yet
DOCUMENT = APP.openapi()
PROTECTED = [
    (method.upper(), path)
    for path, operations in DOCUMENT["paths"].items()
    for method in operations
    if path not in PUBLIC
]


@pytest.fixture
def context(store: Store, engine: EmbeddedEngine, state_dir: Path) -> AppContext:
    return replace(make_context(store, engine, state_dir), keys_required=True)


@pytest.fixture(scope="module")
def keyed(new_store: NewStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TestClient, Store]]:
    """A service with keys that is asked for what is not there."""
    with running(new_store, tmp_path_factory.mktemp("keyed"), keys_required=True) as service:
        yield service


def ask(client: TestClient, method: str, path: str, headers: dict[str, str]) -> httpx.Response:
    return client.request(method, path.replace(":path}", "}").format(**FILLED), headers=headers)


def test_every_route_asks_for_a_key_or_is_known_to_be_public(keyed: tuple[TestClient, Store]) -> None:
    client, _ = keyed
    routes = [(route.path, route.methods or ["GET"]) for route in iter_route_contexts(APP.routes)]
    assert {path for path, _ in routes} >= PUBLIC, "a path is on the list, and nowhere else"
    for path, methods in routes:
        for method in methods:
            if path not in PUBLIC:
                assert path is not None
                assert ask(client, method, path, {}).status_code == 401, (method, path)


def test_what_is_public_needs_no_key(keyed: tuple[TestClient, Store]) -> None:
    client, _ = keyed
    for path in PUBLIC:
        asked = {
            "/problems/{code}": "/problems/not-found",
            "/findings/{kind}": "/findings/baked-value",
            "/signing-keys/{id}": f"/signing-keys/{SIGNER.public_key.id}",
            "/docs/assets": "/docs/assets/swagger-ui.css",
            "/studio/static": "/studio/static/studio.css",
            "/studio/models/{name}": "/studio/models/linear",
        }.get(path, path)
        assert client.get(asked).status_code == 200, path


def test_the_document_says_what_each_route_asks_for() -> None:
    assert DOCUMENT["components"]["securitySchemes"]["ApiKey"]["scheme"] == "bearer"
    for path, operations in DOCUMENT["paths"].items():
        for method, operation in operations.items():
            if path in PUBLIC:
                assert "security" not in operation, path
                continue
            assert operation["security"] == [{"ApiKey": [scope_of(method.upper(), path).value]}], path
            for status, slug in [("401", "api-key-expired"), ("403", "scope-missing"), ("429", "rate-limited")]:
                assert slug in operation["responses"][status]["description"], (method, path)


@pytest.mark.parametrize("scope", Scope)
def test_a_scope_opens_its_routes_and_no_others(keyed: tuple[TestClient, Store], scope: Scope) -> None:
    client, store = keyed
    headers = authorized(store, scope)
    opened = {
        (method, path) for method, path in PROTECTED if ask(client, method, path, headers).status_code not in (401, 403)
    }

    needed = {each: scope_of(*each) for each in PROTECTED}
    others = {Scope.ADMIN: {"trace", "read", "infer"}, Scope.OPERATOR: {"metrics"}}.get(scope, set())
    assert opened == {each for each in PROTECTED if needed[each] in {scope, *others}}


def test_a_scope_that_is_missing_is_named(keyed: tuple[TestClient, Store]) -> None:
    client, store = keyed
    answer = client.delete("/models/linear", headers=authorized(store, Scope.READ, Scope.INFER))

    document = assert_problem(answer, 403, "scope-missing")
    assert (document["scope"], document["scopes"]) == ("admin", ["infer", "read"])
    assert 'error="insufficient_scope", scope="admin"' in answer.headers["www-authenticate"]


def test_the_files_of_an_earlier_request_are_for_who_may_read_them(client: TestClient, store: Store) -> None:
    earlier = client.post("/trace", json=spec(), headers=authorized(store)).json()["id"]

    answer = client.post("/trace", json=spec(), params={"files_of": earlier}, headers=authorized(store, Scope.TRACE))

    assert assert_problem(answer, 403, "scope-missing")["scope"] == "read"


def strangers(store: Store) -> dict[str, tuple[dict[str, str], str]]:
    """By what is wrong with it: what is sent instead of a key that opens, and the problem that it gets."""
    prefix = authorized(store)["authorization"][: len("Bearer th_12345678")]
    expired = authorized(store, expires_at=datetime.now(UTC) - timedelta(seconds=1))
    key, token = store.api_keys.create("former", "acme", [*Scope])
    store.api_keys.revoke(key.prefix)
    return {
        "no header": ({}, "api-key-missing"),
        "another scheme": ({"authorization": "Basic YTpi"}, "api-key-missing"),
        "no token": ({"authorization": "Bearer"}, "api-key-missing"),
        "no key": ({"authorization": "Bearer nonsense"}, "api-key-invalid"),
        "not ASCII": ({"authorization": b"Bearer th_caf\xe9"}, "api-key-invalid"),  # type: ignore[dict-item]
        "unknown": ({"authorization": f"Bearer th_12345678_{'a' * 43}"}, "api-key-invalid"),
        "a wrong secret": ({"authorization": f"{prefix}_{'a' * 43}"}, "api-key-invalid"),
        "revoked": ({"authorization": f"Bearer {token}"}, "api-key-invalid"),
        "expired": (expired, "api-key-expired"),
    }


def test_whoever_has_no_key_that_opens_gets_in_nowhere(keyed: tuple[TestClient, Store]) -> None:
    client, store = keyed
    for what, (headers, code) in strangers(store).items():
        for method, path in PROTECTED:
            answer = ask(client, method, path, headers)
            assert (answer.status_code, answer.json()["code"]) == (401, code), (what, method, path)
            invalid = 'error="invalid_token"' in answer.headers["www-authenticate"]
            assert (answer.headers["www-authenticate"][:6], invalid) == ("Bearer", code != "api-key-missing"), what


def test_a_key_is_asked_for_before_anything_else_is_looked_at(keyed: tuple[TestClient, Store]) -> None:
    client, _ = keyed
    for path in ("/trace/nonsense", "/trace?limit=lots", "/artifacts/nonsense"):
        assert_problem(client.get(path), 401, "api-key-missing")


def test_an_upload_without_a_key_is_refused_at_its_headers(app: FastAPI) -> None:
    head = (
        "POST /trace HTTP/1.1\r\nHost: here\r\nContent-Type: multipart/form-data; boundary=b\r\n"
        f"Content-Length: {2**30}\r\n\r\n"
    )
    with serving(app) as address, socket.create_connection(address, timeout=PATIENCE_S) as connection:
        connection.sendall(head.encode())

        assert connection.recv(100).startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize("sent", [{}, {"authorization": "Bearer nonsense"}])
def test_without_keys_nobody_needs_one(steady: TestClient, sent: dict[str, str]) -> None:
    assert steady.get("/trace", headers=sent).status_code == 200
    assert "ratelimit" not in steady.get("/trace", headers=sent).headers


def test_a_key_that_is_used_too_often_is_told_when_to_come_back(client: TestClient, store: Store) -> None:
    often, other = authorized(store, requests_per_minute=2), authorized(store)

    answers = [client.get("/trace", headers=often) for _ in range(3)]

    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert assert_problem(answers[2], 429, "rate-limited")["limit"] == 2
    assert 1 <= int(answers[2].headers["retry-after"]) <= 30
    assert [answer.headers["ratelimit-policy"] for answer in answers] == ['"minute";q=2;w=60'] * 3
    assert [answer.headers["ratelimit"].split(";")[1] for answer in answers] == ["r=1", "r=0", "r=0"]
    assert client.get("/trace", headers=other).status_code == 200


def test_a_refusal_for_too_many_requests_takes_its_time_and_nobody_else_waits(
    client: TestClient, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    often, other = authorized(store, requests_per_minute=1), authorized(store)
    assert client.get("/trace", headers=often).status_code == 200
    begun, goes_on, waits = threading.Event(), threading.Event(), asyncio.sleep

    async def wait(seconds: float) -> None:
        assert seconds == access.REFUSED_AFTER_S
        begun.set()
        while not goes_on.is_set():
            await waits(0.01)

    monkeypatch.setattr(access, "asyncio", SimpleNamespace(sleep=wait))
    with ThreadPoolExecutor(1) as aside:
        refused = aside.submit(client.get, "/trace", headers=often)
        assert begun.wait(PATIENCE_S)
        assert client.get("/trace", headers=other).status_code == 200
        assert not refused.done()
        goes_on.set()

    assert_problem(refused.result(), 429, "rate-limited")


def test_a_key_without_a_number_of_its_own_has_the_services(context: AppContext, store: Store) -> None:
    headers = authorized(store)
    with TestClient(create_app(with_limits(context, key_requests_per_minute=1))) as client:
        assert client.get("/trace", headers=headers).status_code == 200
        assert_problem(client.get("/models", headers=headers), 429, "rate-limited")


def test_what_a_key_may_not_do_counts_as_well(client: TestClient, store: Store) -> None:
    headers = authorized(store, Scope.INFER, requests_per_minute=1)

    assert_problem(client.get("/trace", headers=headers), 403, "scope-missing")
    assert_problem(client.get("/trace", headers=headers), 429, "rate-limited")


@pytest.mark.parametrize("limit", [1000, UPLOAD_MAX_BYTES * 2])
@pytest.mark.parametrize("sent", ["as JSON", "as files", "in chunks"])
def test_a_keys_limit_lowers_the_services_and_does_not_raise_it(
    app: FastAPI, store: Store, limit: int, sent: str
) -> None:
    headers = {**authorized(store, upload_max_bytes=limit), **(MULTIPART if sent != "as JSON" else {})}
    large = b"x" * 1500 if limit == 1000 else b"x" * (UPLOAD_MAX_BYTES + 1)
    body = multipart(request(source=UPLOADED), ("files", "net.py", large))

    def chunks() -> Iterator[bytes]:
        yield from (body[start : start + 50_000] for start in range(0, len(body), 50_000))

    options: dict[str, Any] = {
        "as JSON": {"json": spec(source={"files": {"a.py": large.decode()}, "entrypoint": "a:A"})},
        "as files": {"content": body},
        "in chunks": {"content": chunks()},
    }[sent]
    with (
        serving(app) as (host, port),
        httpx.Client(base_url=f"http://{host}:{port}", headers=headers, timeout=PATIENCE_S) as live,
    ):
        refused = assert_problem(live.post("/trace", **options), 413, "payload-too-large")
        assert live.get("/trace").json()["trace_requests"] == []

    assert refused["limit"] == min(limit, REQUEST_MAX_BYTES if sent == "as JSON" else UPLOAD_MAX_BYTES)


def test_what_fits_a_keys_limit_is_taken(client: TestClient, store: Store) -> None:
    headers = {**authorized(store, upload_max_bytes=2000), **MULTIPART}

    assert client.post("/trace", content=multipart(request(source=UPLOADED), NET), headers=headers).status_code == 202


@pytest.mark.slow
def test_no_tenant_takes_up_all_event_streams(context: AppContext, store: Store) -> None:
    app = create_app(with_limits(context, tenant_streams_max=1))
    one, other = authorized(store, tenant="one"), authorized(store, tenant="other")
    with serving(app) as (host, port), httpx.Client(base_url=f"http://{host}:{port}", timeout=PATIENCE_S) as client:
        ones, others = (client.post("/trace", json=spec("stays"), headers=who).json() for who in (one, other))
        with client.stream("GET", ones["links"]["events"], headers=one) as stream:
            lines = stream.iter_lines()
            next(lines)
            with client.stream("GET", ones["links"]["events"], headers=one) as refused:
                assert refused.status_code == 429
                refused.read()
            with client.stream("GET", others["links"]["events"], headers=other) as elses:
                assert elses.status_code == 200

    assert lines is not None  # had it been let go of, the stream would have ended
    assert assert_problem(refused, 429, "stream-quota-exceeded")["limit"] == 1
    assert refused.headers["retry-after"] == "1"
