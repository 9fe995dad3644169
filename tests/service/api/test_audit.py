"""The audit log: every change has an entry that says who made it, and none has a key."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.api.app import create_app
from service.api.context import AppContext
from service.domain.api_key import Scope
from service.domain.audit import COMMAND
from service.engine.embedded import EmbeddedEngine
from service.storage import audit
from service.storage.database import Store
from tests.conftest import PATIENCE_S
from tests.service.api.conftest import Tracer, authorized, local, make_context, spec
from tests.service.api.test_access import PROTECTED

# Those that change nothing that anybody would look for here: they run, load or ask.
NO_CHANGE = ("/infer", "/v2/", "/tenants")  # test_quotas.py has those of tenants


@pytest.fixture
def keyed(store: Store, engine: EmbeddedEngine, state_dir: Any) -> Iterator[TestClient]:
    context: AppContext = replace(make_context(store, engine, state_dir), keys_required=True)
    with local(create_app(context)) as client:
        yield client


def entries(client: TestClient, headers: dict[str, str]) -> list[dict[str, Any]]:
    answer = client.get("/audit", params={"limit": 100}, headers=headers)
    assert answer.status_code == 200, answer.text
    return list(answer.json()["entries"])


def test_every_change_names_who_made_it(keyed: TestClient, store: Store, tracer: Tracer) -> None:
    who = authorized(store)
    token = who["authorization"].removeprefix("Bearer ")
    prefix = token[: len("th_12345678")]
    wait = {**who, "prefer": "wait=30"}
    traced = keyed.post("/trace", json=spec("linear"), headers=wait).json()
    keyed.post("/trace", json=spec("linear", force=True, promote="never"), headers=wait)
    stays = keyed.post("/trace", json=spec("stays"), headers=who).json()
    assert tracer.running.wait(PATIENCE_S)
    further = keyed.post(f"/artifacts/{traced['artifacts'][0]['digest']}/check", json={}, headers=who)
    assert further.status_code == 202, further.text
    asked: list[tuple[str, str, Any]] = [
        ("POST", f"/trace/{stays['id']}/cancel", None),
        ("DELETE", f"/trace/{stays['id']}", None),
        ("POST", "/models/linear/promote", {"version": 2}),
        ("PATCH", "/models/linear", {"bitwise": True}),
        ("PUT", "/models/linear/aliases/prod", {"version": 1}),
        ("DELETE", "/models/linear/aliases/prod", None),
        ("DELETE", "/models/linear/versions/1", None),
        ("DELETE", "/models/linear", None),
    ]
    for method, path, body in asked:
        assert keyed.request(method, path, json=body, headers=who).status_code in (200, 204), path

    hook = keyed.post("/webhooks", json={"url": "https://own.example/"}, headers=who).json()
    assert keyed.delete(f"/webhooks/{hook['id']}", headers=who).status_code in (200, 204)

    made = keyed.post("/keys", json={"name": "second"}, headers=who).json()
    assert keyed.delete(f"/keys/{made['prefix']}", headers=who).status_code == 204

    told = entries(keyed, who)

    assert {each["key"] for each in told if each["via"] == "api"} == {prefix}
    by_itself = [each for each in told if each["via"] == "service" and each["action"] != "key.create"]
    assert [(each["action"], each["subject"], each["details"]) for each in by_itself] == [
        ("model.promote", "linear", {"version": 1, "before": None, "trace_request": traced["id"]})
    ]
    asked_for = [(each["action"], each["subject"]) for each in reversed(told) if each not in by_itself]
    assert [action for action, _ in asked_for[:5]] == ["key.create", *["trace.submit"] * 4]
    assert asked_for[5:] == [
        ("trace.cancel", stays["id"]),
        ("trace.delete", stays["id"]),
        ("model.promote", "linear"),
        ("model.change", "linear"),
        ("alias.put", "linear@prod"),
        ("alias.delete", "linear@prod"),
        ("version.delete", "linear:1"),
        ("model.delete", "linear"),
        ("webhook.create", hook["id"]),
        ("webhook.delete", hook["id"]),
        ("key.create", made["prefix"]),
        ("key.revoke", made["prefix"]),
    ]
    promoted = next(each for each in told if each["action"] == "model.promote")
    assert promoted["details"] == {"version": 2, "before": 1}
    changing = {each for each in PROTECTED if each[0] != "GET" and not each[1].startswith(NO_CHANGE)}
    submitting, webhooks, keys = 2, 2, 2
    assert len(changing) == len(asked) + submitting + webhooks + keys, "a new route is not asked here"
    for text in (token, made["key"]):
        assert text[len("th_12345678") :] not in str(told)


def test_what_changes_nothing_has_no_entry(keyed: TestClient, store: Store) -> None:
    who = authorized(store)
    keyed.post("/trace", json=spec("linear"), headers={**who, "prefer": "wait=30"})
    before = entries(keyed, who)

    keyed.post("/trace", json=spec("linear"), headers=who)  # is answered from what is there
    assert keyed.delete("/models/none", headers=who).status_code == 404
    assert keyed.delete(f"/trace/{'0' * 32}", headers=who).status_code == 404

    assert entries(keyed, who) == before


def test_keys_are_made_and_revoked_by_the_command(keyed: TestClient, store: Store) -> None:
    who = authorized(store)
    key, _ = store.api_keys.create("second", "acme", [Scope.READ], by=COMMAND)
    for _ in range(2):
        store.api_keys.revoke(key.prefix, by=COMMAND)

    revoked, made, *_ = entries(keyed, who)

    assert (revoked["action"], revoked["subject"]) == ("key.revoke", key.prefix)
    assert (made["action"], made["subject"], made["via"], made["key"]) == ("key.create", key.prefix, "command", None)
    assert made["details"] == {"name": "second", "scopes": ["read"]}


def test_the_log_goes_on_page_by_page(keyed: TestClient, store: Store) -> None:
    who = authorized(store)
    for _ in range(4):
        authorized(store)
    pages: list[dict[str, Any]] = []
    address = "/audit?limit=2"
    while address:
        answer = keyed.get(address, headers=who)
        pages.append(answer.json())
        address = answer.links["next"]["url"] if "next" in answer.links else ""

    assert [len(page["entries"]) for page in pages] == [2, 2, 1]
    ids = [each["id"] for page in pages for each in page["entries"]]
    assert ids == sorted(ids, reverse=True)
    assert keyed.get("/audit?cursor=none", headers=who).status_code == 422


def test_one_tenant_does_not_push_out_what_another_did(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "_KEPT", 5)
    authorized(store, tenant="quiet")
    for _ in range(250):
        authorized(store, tenant="loud")

    assert len(store.audit_log.list("quiet", 1000).items) == 1
    assert 5 <= len(store.audit_log.list("loud", 1000).items) <= 105
