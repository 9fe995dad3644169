"""Webhooks over HTTP: made, listed without their secrets, and deleted."""

import logging
from dataclasses import replace
from ipaddress import ip_network

import pytest
from fastapi.testclient import TestClient

from service.api.app import create_app
from service.api.context import AppContext
from service.storage.database import Store
from tests.service.api.conftest import assert_problem, local, spec

HOOK = {"url": "https://example.com/tracehouse"}


def test_a_webhook_is_listed_without_its_secret_which_no_log_has(
    client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    made = client.post("/webhooks", json=HOOK)
    secret = made.json()["secret"]

    assert made.status_code == 201
    assert secret.startswith("whsec_")
    [listed] = client.get("/webhooks").json()["webhooks"]
    assert listed == {name: value for name, value in made.json().items() if name != "secret"}
    for path in ("/webhooks", "/audit"):
        assert secret not in client.get(path).text
    assert secret not in caplog.text


def test_each_end_waits_for_a_webhook_until_it_is_deleted(client: TestClient) -> None:
    webhook = client.post("/webhooks", json=HOOK).json()["id"]
    client.post("/trace", json=spec(), headers={"prefer": "wait=30"})
    client.post("/trace", json=spec("fails"), headers={"prefer": "wait=30"})

    assert client.get("/webhooks").json()["webhooks"][0]["waiting"] == 2
    assert client.delete(f"/webhooks/{webhook}").status_code == 204
    assert client.get("/webhooks").json() == {"webhooks": []}
    assert_problem(client.delete(f"/webhooks/{webhook}"), 404, "webhook-not-found")


def test_a_tenant_may_have_only_so_many(client: TestClient) -> None:
    for _ in range(5):
        assert client.post("/webhooks", json=HOOK).status_code == 201

    assert_problem(client.post("/webhooks", json=HOOK), 409, "too-many-webhooks")


@pytest.mark.parametrize("url", ["http://example.com/", "https://127.0.0.1/", "https://[::1]/", "https://a@b.example/"])
def test_an_address_that_is_refused_makes_none(client: TestClient, url: str) -> None:
    assert_problem(client.post("/webhooks", json={"url": url}), 422, "webhook-url-refused")
    assert client.get("/webhooks").json() == {"webhooks": []}


def test_networks_that_the_operator_names_are_taken(context: AppContext) -> None:
    client = local(create_app(replace(context, webhook_networks=[ip_network("10.0.0.0/8")])))

    assert client.post("/webhooks", json={"url": "http://10.1.2.3:8080/"}).status_code == 201
    assert_problem(client.post("/webhooks", json={"url": "http://192.168.1.1/"}), 422, "webhook-url-refused")


def test_what_is_done_is_in_the_audit_log(client: TestClient, store: Store) -> None:
    webhook = client.post("/webhooks", json=HOOK).json()["id"]
    client.delete(f"/webhooks/{webhook}")

    entries = client.get("/audit").json()["entries"]
    assert [(each["action"], each["subject"]) for each in entries] == [
        ("webhook.delete", webhook),
        ("webhook.create", webhook),
    ]
