"""`GET /metrics`: what it says when it is asked at a bad time, or after requests that were meant to fill it."""

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from fastapi.testclient import TestClient

from service.api import watched
from service.api.app import create_app
from service.api.context import AppContext
from service.domain.api_key import Scope
from service.serving.statistics import VersionKey
from service.storage.database import Store
from service.turns import TurnLimits, Turns
from tests.conftest import PATIENCE_S, wait_until
from tests.metrics import Scrape
from tests.service.api.conftest import assert_problem, authorized, local, spec, with_limits

OPENMETRICS = {"accept": "application/openmetrics-text;version=1.0.0"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # on which the service runs


def scrape(client: TestClient) -> Scrape:
    return Scrape.of(client.get("/metrics"))


def ask_versions(context: AppContext, *versions: VersionKey) -> None:
    for version in versions:
        with context.inference.statistics.measure(version):
            pass


def test_exchanges_are_counted_by_the_path_of_their_route(client: TestClient) -> None:
    request = client.post("/trace", json=spec(), headers={"prefer": "wait=30"}).json()
    for _ in range(2):
        client.get(f"/trace/{request['id']}")
    client.head("/models/linear")
    client.put("/models/linear")

    counted = scrape(client)

    assert counted.exchanges("POST", "/trace", 200) == 1
    assert counted.exchanges("GET", "/trace/{id}", 200) == 2
    assert counted.exchanges("HEAD", "/models/{name}", 200) == 1
    assert counted.exchanges("PUT", "/models/{name}", 405) == 1
    assert counted.value("tracehouse_problems_total", code="method-not-allowed") == 1


def test_requests_that_are_being_answered_are_counted(live: httpx.Client) -> None:
    request = live.post("/trace", json=spec("stays")).json()

    def active(method: str) -> float:
        return Scrape.of(live.get("/metrics")).value("http_server_active_requests", http_request_method=method)

    with live.stream("GET", request["links"]["events"]) as watched:
        lines = watched.iter_lines()
        next(lines)
        assert active("GET") == 2  # the stream, and what asks
    live.post(request["links"]["cancel"])
    wait_until(lambda: active("GET") == 1)
    assert active("POST") == 0


def test_paths_and_methods_that_clients_invent_make_no_series(client: TestClient) -> None:
    before = len(scrape(client).samples)
    client.get("/nowhere")
    client.request("BREW", "/nowhere")
    client.get("/models/nobody")
    few = len(scrape(client).samples)
    for number in range(50):
        client.get(f"/nowhere/{number}")
        client.request(f"BREW{number}", "/nowhere")
        client.get(f"/models/nobody{number}")
    after = scrape(client)

    assert before < few == len(after.samples)
    assert after.exchanges("GET", "", 404) == 51
    assert after.exchanges("_OTHER", "", 404) == 51
    assert after.exchanges("GET", "/models/{name}", 404) == 51


def test_only_so_many_versions_have_series_and_the_totals_have_all(context: AppContext) -> None:
    client = local(create_app(with_limits(context, metrics_versions_max=2)))
    ask_versions(context, *(("ours", "net", version) for version in range(1, 6)), ("ours", "net", 2))

    counted = scrape(client)

    own = {labels["version"]: value for labels, value in counted.all("nv_inference_request_success")}
    assert own == {"5": 1, "2": 2}
    assert counted.value("tracehouse_model_versions_left_out") == 3
    assert counted.value("tracehouse_inference_requests_total", result="answered") == 6


def test_no_name_can_forge_a_line(client: TestClient, context: AppContext) -> None:
    name = 'a"} 1\ntracehouse_database_up 0\\'
    ask_versions(context, ("ours", name, 1))

    counted = scrape(client)

    assert counted.value("nv_inference_request_success", model=name) == 1
    assert counted.value("tracehouse_database_up") == 1


def test_equal_names_of_two_tenants_are_two_series(client: TestClient, context: AppContext) -> None:
    ask_versions(context, ("first", "net", 1), ("second", "net", 1), ("second", "net", 1))

    counted = scrape(client)

    assert counted.value("nv_inference_request_success", tenant="first", model="net") == 1
    assert counted.value("nv_inference_request_success", tenant="second", model="net") == 2


def test_prometheus_gets_its_text_and_others_openmetrics(client: TestClient) -> None:
    text, openmetrics = client.get("/metrics"), client.get("/metrics", headers=OPENMETRICS)

    assert text.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert openmetrics.headers["content-type"].startswith("application/openmetrics-text")
    assert openmetrics.text.endswith("# EOF\n")
    assert Scrape.of(openmetrics).families.keys() >= {"tracehouse_database_up", "tracehouse_trace_attempts"}


@pytest.mark.parametrize("scope", [Scope.METRICS, Scope.OPERATOR])
def test_with_keys_the_scope_metrics_is_needed_and_opens_nothing_else(
    context: AppContext, store: Store, scope: Scope
) -> None:
    client = local(create_app(replace(context, keys_required=True)))
    headers = authorized(store, scope)
    admin = authorized(store, Scope.ADMIN)

    assert client.get("/metrics", headers=headers).status_code == 200
    assert_problem(client.get("/metrics"), 401, "api-key-missing")
    assert_problem(client.get("/metrics", headers=admin), 403, "scope-missing")
    assert_problem(client.get("/models", headers=headers), 403, "scope-missing")


@pytest.mark.anyio
async def test_it_answers_while_no_other_request_gets_a_thread(context: AppContext) -> None:
    one = TurnLimits(running_max=1, tenant_running_max=1, waiting_max=1, tenant_waiting_max=1)
    saturated = replace(context, turns=Turns(one))
    done = threading.Event()
    transport = httpx.ASGITransport(create_app(saturated))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        running = asyncio.create_task(saturated.turns.run("default", done.wait, PATIENCE_S))
        waiting = asyncio.create_task(saturated.turns.run("default", done.wait, PATIENCE_S))
        await asyncio.sleep(0)
        refused = await client.get("/models")
        counted = Scrape.of(await client.get("/metrics"))
        done.set()
        await asyncio.gather(running, waiting)

    assert refused.status_code == 503
    assert counted.value("tracehouse_work_running", kind="threads") == 1
    assert counted.value("tracehouse_work_waiting", kind="threads") == 1
    assert counted.value("tracehouse_problems_total", code="too-much-work-waits") == 1


@pytest.fixture
def hanging(context: AppContext, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """A database that gives its figures when the event is set."""
    goes_on, read = threading.Event(), context.store.figures.read
    monkeypatch.setattr(watched, "_WAIT_S", 0.05)
    monkeypatch.setattr(context.store.figures, "read", lambda: goes_on.wait(PATIENCE_S) and read())
    yield goes_on
    goes_on.set()


@pytest.mark.anyio
async def test_a_database_that_hangs_keeps_no_scrape_waiting_and_costs_one_thread(
    context: AppContext, hanging: threading.Event
) -> None:
    transport = httpx.ASGITransport(create_app(context))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        threads = threading.active_count()
        answers = await asyncio.gather(*(client.get("/metrics") for _ in range(20)))
        more_threads = threading.active_count() - threads
        hanging.set()
        async with asyncio.timeout(PATIENCE_S):
            while Scrape.of(await client.get("/metrics")).value("tracehouse_database_up") == 0:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    for counted in map(Scrape.of, answers):
        assert counted.value("tracehouse_database_up") == 0
        assert "tracehouse_trace_queue_requests" not in counted.names, "an old number would look like a new one"
        assert counted.value("tracehouse_sandbox_up") == 1
    assert more_threads <= 2, "one waits for the database, and one writes the metrics"


def test_without_its_database_it_says_so_and_all_else(context: AppContext, tmp_path: Path) -> None:
    store = Store.open(f"sqlite:///{tmp_path / 'gone' / 'tracehouse.db'}", (tmp_path / "gone").as_uri())
    store.close()
    for file in (tmp_path / "gone").glob("tracehouse.db*"):
        file.unlink()
    (tmp_path / "gone").rename(tmp_path / "moved")
    client = local(create_app(replace(context, store=store)))

    counted = scrape(client)

    assert counted.value("tracehouse_database_up") == 0
    assert "tracehouse_stored_bytes" not in counted.names
    assert counted.value("tracehouse_disk_free_bytes") > 0


def test_waiting_trace_requests_are_counted_where_no_worker_is(client: TestClient) -> None:
    client.post("/trace", json=spec(devices=["cuda"]))

    counted = scrape(client)

    assert counted.value("tracehouse_trace_queue_requests", pool="gpu") == 1
    assert counted.value("tracehouse_trace_queue_requests", pool="cpu") == 0
