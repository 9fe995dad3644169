"""A scrape of a service that has traced, answered and refused; and the alerts and the dashboard that read it."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import promql_parser
import pytest
import yaml

from tests.acceptance.conftest import Service, create_key, ended, linear
from tests.metrics import Scrape

ROOT = Path(__file__).parents[2]
ALERTS = yaml.safe_load((ROOT / "deploy/prometheus/alerts.yaml").read_text())
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]
DASHBOARD = json.loads((ROOT / "deploy/grafana/tracehouse.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
PAGE = (ROOT / "docs/operations.md").read_text()
# Prometheus itself adds these labels, and this metric.
OF_PROMETHEUS = {"instance", "job"}
UP = "up"

FITTING = {"args": [[[1, 2]]]}
PROTOCOL = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]}]}
UNFITTING = {"args": [[[1, 2, 3]]]}


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scrape]:
    """What a service says that has done a known number of each thing."""
    service = Service(tmp_path_factory.mktemp("metrics") / "state")
    with service.client() as client:
        assert ended(client, client.post("/trace", json=linear()))["verdict"] == "verified"
        broken = {"files": {"net.py": "def ("}, "entrypoint": "net:Net"}
        assert ended(client, client.post("/trace", json=linear(source=broken)))["state"] == "failed"
        waiting = client.post("/trace", json=linear(devices=["cuda"])).json()["id"]
        client.post("/trace", json=linear(devices=["cuda"], model="other"))
        assert client.post(f"/trace/{waiting}/cancel").status_code == 200
        for _ in range(3):
            assert client.post("/infer/linear", json=FITTING).status_code == 200
        metadata = client.get("/v2/models/linear").json()
        protocol = {"inputs": [PROTOCOL["inputs"][0] | {"name": metadata["inputs"][0]["name"]}]}
        for _ in range(2):
            assert client.post("/v2/models/linear/infer", json=protocol).status_code == 200
        for _ in range(4):
            assert client.post("/infer/linear", json=UNFITTING).json()["code"] == "shape-mismatch"
        assert client.get("/models/nobody").status_code == 404
        yield Scrape.of(client.get("/metrics"))
    service.close()


def test_what_was_traced_is_counted_by_its_end(scraped: Scrape) -> None:
    for outcome, count in {"verified": 1, "failed": 1, "cancelled": 0, "restricted": 0}.items():
        assert scraped.value("tracehouse_trace_requests_total", pool="cpu", outcome=outcome) == count, outcome
    assert scraped.value("tracehouse_trace_requests_total", pool="gpu", outcome="cancelled") == 1
    assert scraped.value("tracehouse_trace_attempts_total", pool="cpu", end="succeeded") == 1
    assert scraped.value("tracehouse_trace_attempts_total", pool="cpu", end="failed") == 1
    assert scraped.value("tracehouse_trace_attempts_total", pool="cpu", end="lost") == 0
    assert scraped.value("tracehouse_trace_problems_total", code="source-syntax-error", fault="model") == 1
    assert scraped.value("tracehouse_trace_duration_seconds_count", pool="cpu") == 2
    assert scraped.value("tracehouse_trace_queue_seconds_count", pool="cpu") == 2
    assert scraped.value("tracehouse_trace_queue_requests", pool="gpu") == 1
    assert scraped.value("tracehouse_trace_queue_oldest_seconds", pool="gpu") > 0
    assert scraped.value("tracehouse_trace_queue_requests", pool="cpu") == 0
    assert scraped.value("tracehouse_trace_slots", pool="gpu") == 0


def test_what_was_answered_and_refused_is_counted(scraped: Scrape) -> None:
    model = {"tenant": "default", "model": "linear", "version": "1"}
    assert scraped.value("nv_inference_request_success", **model) == 5
    assert scraped.value("nv_inference_count", **model) == 5
    assert scraped.value("nv_inference_exec_count", **model) == 5, "they came one after the other"
    assert scraped.value("nv_inference_request_failure", **model, reason="OTHER") == 4
    assert scraped.value("nv_inference_request_failure", **model, reason="BACKEND") == 0
    assert scraped.value("nv_inference_pending_request_count", **model) == 0
    queue_us = scraped.value("nv_inference_queue_duration_us", **model)
    infer_us = scraped.value("nv_inference_compute_infer_duration_us", **model)
    assert 0 < infer_us + queue_us <= scraped.value("nv_inference_request_duration_us", **model)
    assert scraped.value("tracehouse_inference_duration_seconds_count", **model) == 5
    assert scraped.value("tracehouse_inference_duration_seconds_bucket", **model, le="+Inf") == 5
    assert scraped.value("tracehouse_inference_requests_total", result="answered") == 5
    assert scraped.value("tracehouse_inference_requests_total", result="other") == 4
    assert scraped.value("tracehouse_contract_violations_total", clause="shape-mismatch") == 4
    assert scraped.value("tracehouse_problems_total", code="model-not-found", fault="caller") == 1
    assert scraped.value("tracehouse_inference_batch_requests_count") == 5
    assert scraped.value("tracehouse_runners", device="cpu", state="ready") == 1
    assert scraped.value("tracehouse_runner_start_seconds_count") == 1
    assert scraped.value("tracehouse_pool_memory_bytes") > 0


def test_requests_are_counted_alike_whichever_way_they_were_answered(scraped: Scrape) -> None:
    """Small ones are answered before the app sees them, except the first ones."""
    assert scraped.exchanges("POST", "/infer/{model}", 200) == 3
    assert scraped.exchanges("POST", "/v2/models/{name}/infer", 200) == 2
    assert scraped.exchanges("POST", "/infer/{model}", 422) == 4


def test_the_service_says_how_it_is(scraped: Scrape) -> None:
    assert scraped.value("tracehouse_database_up") == scraped.value("tracehouse_sandbox_up") == 1
    assert scraped.value("tracehouse_sandbox_restarts_total") == 0
    assert 0 < scraped.value("tracehouse_disk_free_bytes") <= scraped.value("tracehouse_disk_size_bytes")
    assert scraped.value("tracehouse_stored_bytes") > 0
    assert scraped.value("process_resident_memory_bytes") > 0


def test_the_key_of_the_page_reads_the_metrics_of_all_tenants_and_nothing_else(service_with_keys: Service) -> None:
    def create(*options: str) -> dict[str, str]:
        return {"authorization": f"Bearer {create_key(service_with_keys, *options)}"}

    [of_page] = re.findall(r"tracehouse keys create prometheus (.*) >", PAGE)
    first, second, prometheus = create("--tenant", "first"), create("--tenant", "second"), create(*of_page.split())
    with service_with_keys.client() as client:
        for key in (first, second):
            client.post("/trace", json=linear(), headers=key | {"prefer": "wait=60"}).raise_for_status()
            client.post("/infer/linear", json=FITTING, headers=key).raise_for_status()
        client.post("/infer/linear", json=FITTING, headers=second).raise_for_status()

        scraped = Scrape.of(client.get("/metrics", headers=prometheus))

        assert scraped.value("nv_inference_request_success", tenant="first", model="linear") == 1
        assert scraped.value("nv_inference_request_success", tenant="second", model="linear") == 2
        assert [client.get("/metrics", headers=key).status_code for key in (first, {})] == [403, 401]
        assert client.get("/models", headers=prometheus).status_code == 403


def selectors(expression: str) -> Iterator[promql_parser.VectorSelector]:
    """All that an expression reads. Grafana's own words stand for durations."""
    parsed = promql_parser.parse(re.sub(r"\$__\w+", "5m", expression))
    found: list[promql_parser.VectorSelector] = []

    def visit(node: promql_parser.Expr) -> None:
        if isinstance(node, promql_parser.MatrixSelector):
            found.append(node.vector_selector)
        elif isinstance(node, promql_parser.VectorSelector):
            found.append(node)

    promql_parser.walk(parsed, visit)
    assert found, expression
    yield from found


def assert_reads_what_is_there(expression: str, scraped: Scrape) -> None:
    """Each name is a sample's, each label one of its labels, and each value one that it has."""
    read = [*selectors(expression)]
    for selector in read:
        if selector.name == UP:
            continue
        samples = [labels for labels, _ in scraped.all(selector.name)]
        assert samples, f"{selector.name} is in no scrape: {expression}"
        for matcher in selector.matchers.matchers:
            if matcher.name in OF_PROMETHEUS or matcher.value.startswith("$"):
                assert matcher.name in OF_PROMETHEUS | samples[0].keys(), expression
                continue
            for value in matcher.value.split("|"):
                assert any(labels.get(matcher.name) == value for labels in samples), (value, expression)
    for grouped in re.findall(r"by \(([^)]*)\)", expression):
        labels = {label for each in read for found, _ in scraped.all(each.name) for label in found} | OF_PROMETHEUS
        assert {label.strip() for label in grouped.split(",")} <= labels, expression


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_an_alert_reads_what_a_scrape_has_and_is_explained(rule: dict[str, Any], scraped: Scrape) -> None:
    assert_reads_what_is_there(rule["expr"], scraped)
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert rule["annotations"]["summary"]
    assert f"\n| `{rule['alert']}` | " in PAGE


def test_every_alert_that_is_explained_is_there() -> None:
    explained = re.findall(r"^\| `(Tracehouse\w+)` \|", PAGE, re.MULTILINE)
    assert sorted(explained) == sorted(rule["alert"] for rule in RULES)


@pytest.mark.parametrize("panel", PANELS, ids=[panel["title"] for panel in PANELS])
def test_a_panel_reads_what_a_scrape_has(panel: dict[str, Any], scraped: Scrape) -> None:
    for target in panel["targets"]:
        assert_reads_what_is_there(target["expr"], scraped)
        labels = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
        grouped = {label.strip() for each in re.findall(r"by \(([^)]*)\)", target["expr"]) for label in each.split(",")}
        assert labels <= grouped, target


def test_the_dashboard_asks_for_its_choices_what_a_scrape_has(scraped: Scrape) -> None:
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            [(selector, label)] = re.findall(r"^label_values\((.*), (\w+)\)$", variable["definition"])
            assert_reads_what_is_there(selector, scraped)
            [read] = selectors(selector)
            assert label in OF_PROMETHEUS | scraped.all(read.name)[0][0].keys()


def test_the_page_explains_each_metric_and_no_other(scraped: Scrape) -> None:
    rows = re.findall(r"^\| (`(?:tracehouse|nv|http|process)_.*?) \|", PAGE, re.MULTILINE)
    explained = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(explained) == sorted(scraped.explained_names)


def test_prometheus_is_shown_where_to_scrape() -> None:
    configured = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yaml").read_text())
    job, workers = configured["scrape_configs"]
    names = job["job_name"], workers["job_name"]
    assert names == ("tracehouse", "tracehouse-workers"), "the alerts for one that is down ask for them"
    assert configured["rule_files"] == ["alerts.yaml"]
    assert httpx.URL(f"http://{job['static_configs'][0]['targets'][0]}").port == 8000
