"""Without keys, pages from elsewhere are kept out: by the name that they ask for, and by what their browser tells."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from service.api.app import create_app
from service.api.context import AppContext
from tests.service.api.conftest import assert_problem, spec

HERE = "http://127.0.0.1:8000"
ELSEWHERE = "https://evil.example"


@pytest.fixture
def client(app: FastAPI) -> Iterator[TestClient]:
    with TestClient(app, base_url=HERE) as client:
        yield client


@pytest.mark.parametrize(
    "host", ["localhost", "LocalHost:8000", "127.0.0.1", "127.0.0.1:8000", "127.8.9.10:1", "[::1]", "[::1]:8000"]
)
def test_this_machine_is_answered(steady: TestClient, host: str) -> None:
    assert steady.get("/trace", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example",
        "evil.example:8000",
        "127.0.0.1.evil.example",
        "localhost@evil.example",
        "192.168.1.1",
        "10.0.0.1:8000",
        "0.0.0.0",
        "[::2]",
        "[::]",
        "2130706433",
        "127.1",
        "999.0.0.1",
        "localhost:port",
        "localhost evil.example",
        "",
    ],
)
@pytest.mark.parametrize(
    "path", ["/trace", "/docs", "/openapi.json", "/docs/assets/swagger-ui.css", "/nope", "/readyz"]
)
def test_a_request_for_a_foreign_host_is_refused(steady: TestClient, host: str, path: str) -> None:
    assert assert_problem(steady.get(path, headers={"host": host}), 403, "foreign-host")["remedy"]


def test_a_request_with_two_host_headers_is_refused(steady: TestClient) -> None:
    sent = steady.build_request("GET", "/trace", headers=[("host", "localhost"), ("host", "evil.example")])

    assert_problem(steady.send(sent), 403, "foreign-host")


@pytest.mark.parametrize(
    "page",
    [
        {"origin": ELSEWHERE},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9000"},
        {"origin": "http://localhost:8000"},
        {"origin": "https://127.0.0.1:8000"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": HERE, "sec-fetch-site": "cross-site"},
    ],
)
@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/trace"), ("POST", "/infer/linear"), ("DELETE", "/models/linear"), ("OPTIONS", "/trace")],
)
def test_a_page_from_elsewhere_changes_nothing(
    client: TestClient, method: str, path: str, page: dict[str, str]
) -> None:
    assert_problem(client.request(method, path, headers=page), 403, "cross-site-request")


def test_a_form_on_a_page_from_elsewhere_submits_nothing(client: TestClient) -> None:
    """A browser sends such a form without asking first."""
    form = {"request": (None, b"{}")}
    refused = client.post("/trace", files=form, headers={"origin": ELSEWHERE, "sec-fetch-site": "cross-site"})

    assert_problem(refused, 403, "cross-site-request")
    assert client.get("/trace").json()["trace_requests"] == []


@pytest.mark.parametrize(
    "page",
    [
        {},
        {"origin": HERE, "sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "none"},
    ],
    ids=["a program", "the documentation", "a person"],
)
def test_the_services_own_pages_and_programs_may_submit(client: TestClient, page: dict[str, str]) -> None:
    assert client.post("/trace", json=spec(), headers=page).status_code == 202


def test_a_link_from_elsewhere_may_lead_to_the_documentation(client: TestClient) -> None:
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}

    assert client.get("/docs", headers=link).status_code == 200


@pytest.mark.parametrize("mode", ["no-cors", "cors", "websocket"])
def test_a_page_from_elsewhere_loads_nothing_either(client: TestClient, mode: str) -> None:
    """It could not read it, but event streams, for one, are few."""
    loading = {"sec-fetch-site": "cross-site", "sec-fetch-mode": mode}

    assert_problem(client.get("/trace", headers=loading), 403, "cross-site-request")


@pytest.fixture
def keyed(context: AppContext) -> Iterator[TestClient]:
    with TestClient(create_app(replace(context, keys_required=True)), base_url="http://service.example") as client:
        yield client


def test_with_keys_the_service_may_have_any_name(keyed: TestClient) -> None:
    """A page from elsewhere has no key to send."""
    assert keyed.get("/livez").status_code == 200
    assert_problem(keyed.post("/trace", headers={"origin": ELSEWHERE}), 401, "api-key-missing")
