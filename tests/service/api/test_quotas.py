"""Tenants and their quotas, over the API."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.api.app import create_app
from service.domain.api_key import Scope
from service.domain.quotas import Quotas
from service.engine.embedded import EmbeddedEngine
from service.storage.database import Store
from tests.conftest import counted_bytes
from tests.service.api.conftest import assert_problem, authorized, local, make_context, spec

SERVICE = Quotas(queued_max=100, stored_max_bytes=10**9)


@pytest.fixture
def keyed(store: Store, engine: EmbeddedEngine, state_dir: Path) -> Iterator[TestClient]:
    context = replace(make_context(store, engine, state_dir), keys_required=True, quotas=SERVICE)
    with local(create_app(context)) as client:
        yield client


@pytest.fixture
def operator(store: Store) -> dict[str, str]:
    return authorized(store, Scope.ADMIN, Scope.OPERATOR, tenant="default")


def put(client: TestClient, who: dict[str, str], tenant: str, **quotas: Any) -> Any:
    body = {"queued_max": None, "stored_max_bytes": None, **quotas}
    return client.put(f"/tenants/{tenant}/quotas", json=body, headers=who)


def test_a_tenants_own_quota_holds_in_place_of_the_services(
    keyed: TestClient, store: Store, operator: dict[str, str]
) -> None:
    acme, other = authorized(store), authorized(store, tenant="other")
    weights = {"files": ("net.py", b"x" * 100_000)}
    request = {"request": '{"model": "linear", "source": {"file": "net.py", "entrypoint": "net:Net"}}'}

    answer = put(keyed, operator, "acme", stored_max_bytes=50_000)

    assert (answer.status_code, answer.json()["quotas"]) == (200, {"queued_max": 100, "stored_max_bytes": 50_000})
    refused = keyed.post("/trace", data=request, files=weights, headers=acme)
    assert assert_problem(refused, 403, "storage-quota-exceeded")["limit"] == 50_000
    assert keyed.post("/trace", data=request, files=weights, headers=other).status_code != 403
    put(keyed, operator, "acme")
    assert keyed.post("/trace", data=request, files=weights, headers=acme).status_code != 403


def test_everybody_sees_what_their_tenant_has(keyed: TestClient, store: Store) -> None:
    acme = authorized(store)
    keyed.post("/trace", json=spec("linear"), headers={**acme, "prefer": "wait=30"})

    told = keyed.get("/quota", headers=acme).json()

    assert told == {
        "name": "acme",
        "queued": 0,
        "stored_bytes": counted_bytes(store, "acme"),
        "own_quotas": {"queued_max": None, "stored_max_bytes": None},
        "quotas": SERVICE.model_dump(),
    }
    assert told["stored_bytes"] > 0


def test_an_operator_sees_all_tenants_page_by_page(keyed: TestClient, store: Store, operator: dict[str, str]) -> None:
    for tenant in ("acme", "beta"):
        authorized(store, tenant=tenant)
    put(keyed, operator, "not-yet", queued_max=3)
    names: list[str] = []
    address = "/tenants?limit=3"
    while address:
        answer = keyed.get(address, headers=operator)
        names += [each["name"] for each in answer.json()["tenants"]]
        address = answer.links["next"]["url"] if "next" in answer.links else ""

    assert names == ["acme", "beta", "default", "not-yet"]
    assert keyed.get("/tenants/not-yet", headers=operator).json()["own_quotas"]["queued_max"] == 3
    assert_problem(keyed.get("/tenants/nobody", headers=operator), 404, "tenant-not-found")


def test_an_admin_of_a_tenant_sets_no_quotas_and_reads_no_others(
    keyed: TestClient, store: Store, operator: dict[str, str]
) -> None:
    acme = authorized(store, Scope.ADMIN)

    assert_problem(put(keyed, acme, "acme", stored_max_bytes=10**12), 403, "scope-missing")
    assert_problem(keyed.get("/tenants", headers=acme), 403, "scope-missing")
    assert_problem(keyed.get("/audit?tenant=default", headers=acme), 403, "scope-missing")
    assert keyed.get("/audit?tenant=acme", headers=acme).status_code == 200
    assert store.tenants.usage("acme").own_quotas == Quotas()


def test_who_set_a_quota_is_in_the_tenants_audit_log(keyed: TestClient, store: Store, operator: dict[str, str]) -> None:
    put(keyed, operator, "acme", queued_max=3)

    [entry] = keyed.get("/audit?tenant=acme", headers=operator).json()["entries"]

    assert (entry["action"], entry["subject"]) == ("quotas.put", "acme")
    assert entry["details"] == {"queued_max": 3, "stored_max_bytes": None}
    assert entry["key"] == operator["authorization"].removeprefix("Bearer ")[:11]


def test_the_audit_log_counts_and_a_change_without_room_for_its_entry_is_not_made(
    keyed: TestClient, store: Store, operator: dict[str, str]
) -> None:
    acme = authorized(store)
    for _ in range(2):
        keyed.post("/trace", json=spec("linear", force=True), headers={**acme, "prefer": "wait=30"})
    before = keyed.get("/quota", headers=acme).json()["stored_bytes"]
    made = keyed.post("/keys", json={"name": "second"}, headers=acme).json()
    keyed.put("/models/linear/aliases/prod", json={"version": 1}, headers=acme)
    hook = keyed.post("/webhooks", json={"url": "https://own.example/"}, headers=acme).json()
    now = keyed.get("/quota", headers=acme).json()["stored_bytes"]
    assert now - before > 3 * 150, "three entries"
    put(keyed, operator, "acme", stored_max_bytes=now)
    log = keyed.get("/audit", headers=acme).json()["entries"]
    state = keyed.get("/models/linear", headers=acme).json()

    for method, path, body in (
        ("POST", "/trace", spec("linear", force=True)),
        ("POST", "/models/linear/promote", {"version": 1}),
        ("PATCH", "/models/linear", {"bitwise": True}),
        ("PUT", "/models/linear/aliases/next", {"version": 1}),
        ("POST", "/keys", {"name": "third"}),
        ("POST", "/webhooks", {"url": "https://own.example/"}),
    ):
        refused = keyed.request(method, path, json=body, headers=acme)
        assert assert_problem(refused, 403, "storage-quota-exceeded")["limit"] == now, path

    assert keyed.get("/audit", headers=acme).json()["entries"] == log
    assert keyed.get("/models/linear", headers=acme).json() == state
    assert len(keyed.get("/keys", headers=acme).json()["keys"]) == 2
    for path in (
        f"/keys/{made['prefix']}",
        f"/webhooks/{hook['id']}",
        "/models/linear/aliases/prod",
        "/models/linear",
        *(f"/trace/{each['id']}" for each in keyed.get("/trace", headers=acme).json()["trace_requests"]),
    ):
        assert keyed.delete(path, headers=acme).status_code == 204, path
    assert len(keyed.get("/audit", headers=acme).json()["entries"]) == len(log) + 6
    assert keyed.post("/trace", json=spec("linear"), headers=acme).status_code == 202, "there is room again"


def test_an_operator_makes_keys_for_a_tenant_without_room(
    keyed: TestClient, store: Store, operator: dict[str, str]
) -> None:
    put(keyed, operator, "acme", stored_max_bytes=1)

    answer = keyed.post("/keys", json={"name": "first", "tenant": "acme"}, headers=operator)

    assert answer.status_code == 201, answer.text


@pytest.mark.parametrize("body", [{"queued_max": -1, "stored_max_bytes": None}, {"queued_max": 1}, {"limit": 3}])
def test_what_is_no_quota_is_refused_by_its_name(
    keyed: TestClient, operator: dict[str, str], body: dict[str, Any]
) -> None:
    answer = keyed.put("/tenants/acme/quotas", json=body, headers=operator)

    assert assert_problem(answer, 422, "invalid-request")["errors"]
