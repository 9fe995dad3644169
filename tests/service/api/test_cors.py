"""CORS is off, and on for the origins that are named."""

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from service.api.app import create_app
from service.api.context import AppContext
from tests.service.api.conftest import assert_problem, local, spec

FRIEND = "https://friend.example"
STRANGER = "https://stranger.example"
PREFLIGHT = {
    "access-control-request-method": "POST",
    "access-control-request-headers": "authorization, idempotency-key",
}


@pytest.fixture
def open_to_a_friend(context: AppContext) -> Iterator[TestClient]:
    with local(create_app(context, cors_origins=[FRIEND])) as client:
        yield client


@pytest.mark.parametrize("path", ["/trace", "/livez", "/docs", "/nope"])
def test_no_reply_says_anything_to_other_pages(steady: TestClient, path: str) -> None:
    for answer in (
        steady.get(path, headers={"origin": FRIEND}),
        steady.options(path, headers={"origin": FRIEND, **PREFLIGHT}),
    ):
        assert not [name for name in answer.headers if name.startswith("access-control-")]


def test_a_page_that_is_named_may_ask(open_to_a_friend: TestClient) -> None:
    page = {"origin": FRIEND, "sec-fetch-site": "cross-site"}
    asked = open_to_a_friend.options("/trace", headers={**page, **PREFLIGHT})
    sent = open_to_a_friend.post("/trace", json=spec(), headers=page)

    assert (asked.status_code, asked.headers["access-control-allow-origin"]) == (200, FRIEND)
    assert (sent.status_code, sent.headers["access-control-allow-origin"]) == (202, FRIEND)
    assert "Location" in sent.headers["access-control-expose-headers"]
    assert "access-control-allow-credentials" not in {*asked.headers, *sent.headers}


def test_it_may_use_every_method_that_a_route_has(open_to_a_friend: TestClient) -> None:
    methods = {
        method.upper() for path in open_to_a_friend.get("/openapi.json").json()["paths"].values() for method in path
    }

    asked = [
        open_to_a_friend.options(
            "/models/net", headers={"origin": FRIEND, **PREFLIGHT, "access-control-request-method": method}
        )
        for method in methods
    ]

    assert {"GET", "POST", "PUT", "PATCH", "DELETE"} <= methods
    assert {one.status_code for one in asked} == {200}


def test_it_is_told_of_problems_too(open_to_a_friend: TestClient) -> None:
    answer = open_to_a_friend.get("/models/nope", headers={"origin": FRIEND})

    assert answer.headers["access-control-allow-origin"] == FRIEND
    assert_problem(answer, 404, "model-not-found")


def test_others_are_kept_out_all_the_same(open_to_a_friend: TestClient) -> None:
    asked = open_to_a_friend.options("/trace", headers={"origin": STRANGER, **PREFLIGHT})
    sent = open_to_a_friend.post("/trace", json=spec(), headers={"origin": STRANGER})

    assert asked.status_code == 400
    assert_problem(sent, 403, "cross-site-request")
    assert "access-control-allow-origin" not in {*asked.headers, *sent.headers}
