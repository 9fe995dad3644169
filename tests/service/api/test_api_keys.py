"""API keys over HTTP: made, listed without their secrets, revoked, and never above the key that asks."""

import logging
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from httpx import Response

from service.api import api_keys
from service.api.app import create_app
from service.api.context import AppContext
from service.domain.api_key import Scope
from service.engine.embedded import EmbeddedEngine
from service.storage.database import Store
from tests.service.api.conftest import assert_problem, authorized, local, make_context

OPERATOR = (Scope.ADMIN, Scope.OPERATOR)


@pytest.fixture
def context(store: Store, engine: EmbeddedEngine, state_dir: Path) -> AppContext:
    return replace(make_context(store, engine, state_dir), keys_required=True)


@pytest.fixture
def keyed(context: AppContext) -> Iterator[TestClient]:
    with local(create_app(context)) as client:
        yield client


def bearer(made: dict[str, Any]) -> dict[str, str]:
    return {"authorization": f"Bearer {made['key']}"}


def test_a_key_is_shown_once_and_opens_what_it_may_until_it_is_revoked(
    keyed: TestClient, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    who = authorized(store)
    answer = keyed.post("/keys", json={"name": "reader", "scopes": ["read"]}, headers=who)
    made = answer.json()

    assert (answer.status_code, made["tenant"], made["scopes"]) == (201, "acme", ["read"])
    assert answer.headers["cache-control"] == "no-store"
    assert keyed.get("/trace", headers=bearer(made)).status_code == 200
    assert_problem(keyed.get("/keys", headers=bearer(made)), 403, "scope-missing")
    listed = keyed.get("/keys", headers=who)
    assert [one["name"] for one in listed.json()["keys"]] == ["somebody", "reader"]
    for text in (listed.text, keyed.get("/audit", headers=who).text, caplog.text):
        assert made["key"].rpartition("_")[2] not in text
    assert keyed.delete(f"/keys/{made['prefix']}", headers=who).status_code == 204
    assert_problem(keyed.get("/trace", headers=bearer(made)), 401, "api-key-invalid")
    assert keyed.get("/keys", headers=who).json()["keys"][1]["revoked_at"] is not None


def test_a_key_may_at_most_what_the_key_that_asks_may(keyed: TestClient, store: Store) -> None:
    ends = datetime.now(UTC) + timedelta(hours=1)
    who = authorized(store, expires_at=ends, requests_per_minute=100, upload_max_bytes=1000)
    made = keyed.post("/keys", json={"name": "as mine"}, headers=who).json()

    assert (datetime.fromisoformat(made["expires_at"]), made["requests_per_minute"], made["upload_max_bytes"]) == (
        ends,
        100,
        1000,
    )
    less = keyed.post("/keys", json={"name": "less", "upload_max_bytes": 10}, headers=who).json()
    assert less["upload_max_bytes"] == 10
    for name, more in (
        ("expires_at", (ends + timedelta(seconds=1)).isoformat()),
        ("requests_per_minute", 101),
        ("upload_max_bytes", 1001),
    ):
        refused = keyed.post("/keys", json={"name": "more", name: more}, headers=who)
        assert assert_problem(refused, 422, "invalid-request")["errors"][0]["pointer"] == f"/{name}"
    for scope in ("operator", "metrics"):
        refused = keyed.post("/keys", json={"name": "more", "scopes": ["read", scope]}, headers=who)
        assert assert_problem(refused, 403, "scope-missing")["scope"] == scope
    assert [one["name"] for one in keyed.get("/keys", headers=who).json()["keys"]] == ["somebody", "as mine", "less"]


def test_only_an_operator_lets_a_key_ask_more_often_than_the_service_lets_each(
    keyed: TestClient, store: Store, context: AppContext
) -> None:
    usual = context.limits.key_requests_per_minute
    admin, operator = authorized(store), authorized(store, *OPERATOR)
    often = authorized(store, requests_per_minute=usual + 2)

    def make(who: dict[str, str], per_minute: int) -> Response:
        return keyed.post("/keys", json={"name": "often", "requests_per_minute": per_minute}, headers=who)

    refused = assert_problem(make(admin, usual + 1), 422, "invalid-request")
    assert refused["errors"][0]["pointer"] == "/requests_per_minute"
    assert str(usual) in refused["detail"]
    for who, per_minute in ((admin, usual), (operator, usual + 1), (often, usual + 2)):
        assert make(who, per_minute).json()["requests_per_minute"] == per_minute


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("name", ""), ("name", "x\x1b[2J"), ("scopes", []), ("scopes", ["root"]), ("tenant", "A B"),
        ("expires_at", "2020-01-01T00:00:00Z"), ("expires_at", "2050-01-01T00:00:00"),
        ("expires_at", "9999-12-31T23:59:59-23:59"), ("upload_max_bytes", 0),
    ],
)  # fmt: skip
def test_a_key_that_cannot_be_is_refused(keyed: TestClient, store: Store, member: str, value: Any) -> None:
    refused = keyed.post("/keys", json={"name": "odd", member: value}, headers=authorized(store, *OPERATOR))

    assert assert_problem(refused, 422, "invalid-request")["errors"][0]["pointer"].startswith(f"/{member}")


def test_an_operator_makes_and_revokes_keys_of_other_tenants_and_nobody_else_does(
    keyed: TestClient, store: Store
) -> None:
    operator, admin = authorized(store, *OPERATOR, tenant="default"), authorized(store, tenant="default")
    made = keyed.post("/keys", json={"name": "first of acme", "tenant": "acme"}, headers=operator).json()

    assert made["tenant"] == "acme"
    assert_problem(keyed.post("/keys", json={"name": "x", "tenant": "acme"}, headers=admin), 403, "scope-missing")
    path = f"/keys/{made['prefix']}"
    for who in (operator, admin):
        assert_problem(keyed.delete(path, headers=who), 404, "api-key-not-found")
    for ask in (keyed.delete, keyed.get):
        asked = path if ask == keyed.delete else "/keys"
        assert_problem(ask(asked, params={"tenant": "acme"}, headers=admin), 403, "scope-missing")
    listed = keyed.get("/keys", params={"tenant": "acme"}, headers=operator).json()["keys"]
    assert [one["name"] for one in listed] == ["first of acme"]
    assert keyed.delete(path, params={"tenant": "acme"}, headers=operator).status_code == 204


def test_an_operators_key_is_not_revoked_by_one_who_is_none(keyed: TestClient, store: Store) -> None:
    operator, admin = authorized(store, *OPERATOR, tenant="default"), authorized(store, tenant="default")
    prefix = operator["authorization"].removeprefix("Bearer ").rpartition("_")[0]

    assert_problem(keyed.delete(f"/keys/{prefix}", headers=admin), 403, "scope-missing")
    assert keyed.get("/keys", headers=operator).status_code == 200


def test_the_list_goes_on_page_by_page(keyed: TestClient, store: Store) -> None:
    who = authorized(store)
    for _ in range(4):
        authorized(store)
    pages: list[list[Any]] = []
    address = "/keys?limit=2"
    while address:
        answer = keyed.get(address, headers=who)
        pages.append(answer.json()["keys"])
        address = answer.links["next"]["url"] if "next" in answer.links else ""

    assert [len(page) for page in pages] == [2, 2, 1]
    assert len({one["prefix"] for page in pages for one in page}) == 5
    assert_problem(keyed.get("/keys?cursor=none", headers=who), 422, "invalid-cursor")


def test_a_tenant_may_have_only_so_many_and_those_that_ended_are_forgotten_at_last(
    keyed: TestClient, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_keys, "KEYS_MAX", 3)
    who = authorized(store)
    authorized(store, tenant="other")
    for number in range(6):
        made = keyed.post("/keys", json={"name": str(number)}, headers=who).json()
        keyed.delete(f"/keys/{made['prefix']}", headers=who)
    kept = [one["name"] for one in keyed.get("/keys", headers=who).json()["keys"]]
    assert kept == ["somebody", "2", "3", "4", "5"]

    store.api_keys.create("short", "acme", [Scope.READ], expires_at=datetime.now(UTC))
    for _ in range(2):
        assert keyed.post("/keys", json={"name": "more"}, headers=who).status_code == 201
    assert assert_problem(keyed.post("/keys", json={"name": "more"}, headers=who), 409, "too-many-keys")["limit"] == 3


def test_whoever_may_trace_reads_how_much_may_be_sent(keyed: TestClient, store: Store) -> None:
    limits = keyed.get("/limits", headers=authorized(store, Scope.TRACE)).json()
    own = keyed.get("/limits", headers=authorized(store, Scope.TRACE, upload_max_bytes=7)).json()

    assert limits["upload_max_bytes"] > limits["request_max_bytes"] > 7
    assert own == {**limits, "request_max_bytes": 7, "upload_max_bytes": 7}
