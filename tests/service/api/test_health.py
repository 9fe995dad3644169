"""Whether the process lives, and whether it can do its work."""

from dataclasses import replace
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from service.api import health
from service.api.app import create_app
from service.api.context import AppContext
from service.sandbox.tiers import Tier
from service.sandbox.zygote import ZygoteHealth
from service.storage.database import Store
from tests.service.api.conftest import assert_problem, local


def test_it_is_alive_and_ready(client: TestClient) -> None:
    assert client.get("/livez").json() == {"status": "alive"}
    assert client.get("/readyz").json()["status"] == "ready"


def test_it_says_how_submitted_code_is_confined_and_what_that_does_not_cover(client: TestClient) -> None:
    sandbox = client.get("/readyz").json()["sandbox"]

    assert sandbox["tier"] == "landlock"
    assert "seccomp" in sandbox["description"]
    assert any("kernel" in gap for gap in sandbox["not_covered"])


def test_it_says_how_often_its_sandbox_was_started_anew(context: AppContext) -> None:
    client = local(create_app(replace(context, sandbox_health=lambda: ZygoteHealth(None, 1))))

    assert client.get("/readyz").json()["sandbox"]["restarts"] == 1


def test_without_isolation_it_says_so_in_its_readiness_and_on_its_page(context: AppContext) -> None:
    client = local(create_app(replace(context, tier=Tier.NONE)))

    assert client.get("/readyz").json()["sandbox"]["tier"] == "i-accept-no-isolation"
    assert "No isolation" in client.get("/docs").text


def test_with_isolation_the_page_has_no_warning(client: TestClient) -> None:
    assert "No isolation" not in client.get("/docs").text


def test_without_a_sandbox_it_lives_but_is_not_ready(context: AppContext) -> None:
    client = local(create_app(replace(context, sandbox_health=lambda: ZygoteHealth("it does not answer", 2))))

    answer = client.get("/readyz")

    problem = assert_problem(answer, 503, "sandbox-unavailable")
    assert (problem["detail"], problem["restarts"]) == ("it does not answer", 2)
    assert answer.headers["retry-after"] == "1"
    assert client.get("/livez").status_code == 200


def test_without_its_database_it_is_not_ready(context: AppContext, tmp_path: Path) -> None:
    store = Store.open(f"sqlite:///{tmp_path / 'gone' / 'tracehouse.db'}", (tmp_path / "gone").as_uri())
    store.close()
    for file in (tmp_path / "gone").glob("tracehouse.db*"):
        file.unlink()
    (tmp_path / "gone").rename(tmp_path / "moved")
    client = local(create_app(replace(context, store=store)))

    assert_problem(client.get("/readyz"), 503, "storage-unavailable")
    assert_problem(client.get("/models"), 503, "storage-unavailable")


def test_without_room_on_the_disk_it_is_not_ready(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "DISK_MIN_BYTES", 2**80)

    assert assert_problem(client.get("/readyz"), 503, "disk-full")["free"] > 0


def test_while_it_stops_it_is_not_ready(client: TestClient, context: AppContext) -> None:
    context.stopping.set()

    assert_problem(client.get("/readyz"), 503, "shutting-down")
