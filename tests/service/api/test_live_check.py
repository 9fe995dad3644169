"""Answers of real runners, compared with the model in Python in a real process, as a client sees it.

The artifact is made by hand: of a model that doubles, beside Python that does so only up to a hundred.
"""

import io
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient

import tracehouse
from service.api.context import AppContext
from service.domain.api_key import DEFAULT_TENANT
from service.domain.live_check import LiveCheck
from service.domain.outcome import Succeeded
from service.domain.quotas import NO_QUOTAS
from service.domain.trace_request import TraceRequest
from service.engine.further_check import FurtherChecks
from service.sandbox.zygote import Zygote
from service.serving.live_check import LiveChecker, LiveCheckLimits
from service.storage.database import Store
from tests.conftest import NO_ENVIRONMENTS, PATIENCE_S
from tests.metrics import Scrape
from tests.service.api.conftest import assert_problem, serving_runners, spec
from tracehouse.spec.conversion import Conversion
from tracehouse.spec.trace_spec import CheckBudget, TraceSpec
from workers.limits import TraceLimits
from workers.live_check import TwinRunner

PYTHON = """
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        return x * 3 if x.sum() > 100 else x * 2
"""
LIMITS = TraceLimits(
    wall_s=PATIENCE_S,
    cpu_s=600,
    memory_mib=4096,
    threads=1,
    log_max_bytes=0,
    source_max_bytes=2**20,
    child_threads_max=256,
    child_open_files_max=128,
)
RIGHT, WRONG = {"args": [[1, 2]]}, {"args": [[100, 2]]}
PROD = "/models/doubles/aliases/prod"
PAGE = "/studio/parts/models/doubles"


class Doubles(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


def register(store: Store, trace: Any) -> None:
    """Two versions of the model `doubles`."""
    artifact = trace(store.blobs, Doubles(), torch.zeros(2)).model_copy(update={"conversion": Conversion(mode="trace")})
    submitted = {
        "model": "doubles",
        "source": {"files": {"net.py": PYTHON}, "entrypoint": "net:Net"},
        "example_inputs": [{"datatype": "FP32", "shape": [2], "data": [0, 0]}],
        "force": True,
    }
    parsed = TraceSpec.model_validate(submitted)
    for _ in range(2):
        request = TraceRequest.new(parsed, {}, torch_version="2", tenant=DEFAULT_TENANT)
        claimed = store.trace_requests.claim(store.trace_requests.add(request).id)
        assert claimed is not None
        assert store.trace_requests.finish(claimed.id, claimed.attempt, Succeeded.of(parsed, [artifact]))


@contextmanager
def checking(store: Store, zygote: Zygote, state_dir: Path, answerer: str) -> Iterator[httpx.Client]:
    """A service that checks all answers."""
    plans = FurtherChecks(store, NO_ENVIRONMENTS, "2")

    def plan(tenant: str, digest: str) -> TraceRequest:
        return plans.plan(tenant, digest, CheckBudget())

    def check_all(context: AppContext) -> AppContext:
        twins = TwinRunner(store, zygote, NO_ENVIRONMENTS, plan, LIMITS, call_s=PATIENCE_S)
        limits = LiveCheckLimits(share=1.0, stored_every_s=0.0, different_every_s=0.0)
        context.inference.live_checker = LiveChecker(store, twins, limits, NO_QUOTAS)
        return context

    with (
        serving_runners(store, zygote, state_dir, answerer=answerer, change=check_all) as host,
        httpx.Client(base_url=f"http://{host}", timeout=PATIENCE_S) as client,
    ):
        yield client


def ask(client: httpx.Client, body: dict[str, Any], reference: str = "doubles") -> list[float]:
    answer = client.post(f"/infer/{reference}", json=body)
    assert answer.status_code == 200, answer.text
    values: list[float] = answer.json()["outputs"][0]["data"]
    return values


def until(holds: Callable[[], bool]) -> None:
    ends = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.02)


def live_check(client: httpx.Client, version: int) -> dict[str, Any]:
    found = client.get("/models/doubles").json()["versions"][version - 1]["live_check"]
    return found or LiveCheck().model_dump()


@pytest.mark.parametrize("answerer", ["app", "fast path"])
def test_a_version_says_which_answers_were_not_those_of_the_model(
    store: Store, torch_zygote: Zygote, tmp_path: Path, trace: Any, answerer: str
) -> None:
    register(store, trace)
    with checking(store, torch_zygote, tmp_path, answerer) as client:
        assert client.get("/models/doubles").json()["versions"][0]["live_check"] is None

        assert [ask(client, body) for body in (RIGHT, RIGHT, WRONG)] == [[2, 4], [2, 4], [200, 4]]

        until(lambda: live_check(client, 2)["different"] + live_check(client, 2)["equal"] == 3)
        found = live_check(client, 2)
        counts = ("asked", "equal", "different", "dropped", "could_not_run")
        assert [found[name] for name in counts] == [3, 2, 1, 0, 0]
        [counterexample] = found["counterexamples"]
        assert counterexample["difference"] == "the model gives 300.0 at [0], and the artifact 200.0"
        downloaded = client.get("/models/doubles/versions/2/counterexamples/0.npz")
        with np.load(io.BytesIO(downloaded.content), allow_pickle=False) as arrays:
            assert {name: arrays[name].tolist() for name in arrays.files} == {
                "input.x": [100, 2],
                "eager.output": [300, 6],
                "artifact.output": [200, 4],
            }
        for path in ("versions/2/counterexamples/1.npz", "versions/1/counterexamples/0.npz"):
            assert_problem(client.get(f"/models/doubles/{path}"), 404, "counterexample-not-found")
        assert_problem(client.get("/models/doubles/versions/7/counterexamples/0.npz"), 404, "version-not-found")
        scraped = Scrape.of(client.get("/metrics"))
        assert scraped.value("tracehouse_live_checks_total", result="asked") == 3
        assert scraped.value("tracehouse_live_checks_total", result="equal") == 2
        assert scraped.value("tracehouse_live_checks_total", result="different") == 1
        of_version = {"model": "doubles", "version": "2"}
        assert scraped.value("tracehouse_live_check_differences_total", **of_version) == 1


def test_an_alias_moves_back_when_answers_are_wrong(
    store: Store, torch_zygote: Zygote, tmp_path: Path, trace: Any
) -> None:
    register(store, trace)
    with checking(store, torch_zygote, tmp_path, "fast path") as client:
        first = client.put(PROD, json={"version": 1})
        body = {"version": 2, "move_back_after": 2}
        assert_problem(client.put(PROD, json=body), 428, "if-match-required")
        moved = client.put(PROD, json=body, headers={"If-Match": first.json()["etag"]}).json()
        assert (moved["version"], moved["move_back_after"], moved["move_back_to"]) == (2, 2, 1)

        ask(client, WRONG, "doubles@prod")
        until(lambda: live_check(client, 2)["different"] == 1)
        assert client.get(PROD).json() == moved
        ask(client, WRONG, "doubles@prod")
        until(lambda: client.get(PROD).json()["version"] == 1)

        back = client.get(PROD).json()
        assert (back["move_back_after"], back["move_back_to"]) == (None, None)
        assert (back["moved_back"]["version"], back["moved_back"]["different"]) == (2, 2)
        answered = client.post("/infer/doubles@prod", json=RIGHT).json()
        assert (answered["model_version"], answered["outputs"][0]["data"]) == ("1", [2, 4])

        tracehouse.Client(str(client.base_url)).models.set_alias("doubles", "prod", 2, move_back_after=5)
        again = client.get(PROD).json()
        assert (again["version"], again["move_back_after"], again["moved_back"]) == (2, 5, None)


def test_the_default_version_moves_back_when_answers_are_wrong(
    store: Store, torch_zygote: Zygote, tmp_path: Path, trace: Any
) -> None:
    register(store, trace)
    with checking(store, torch_zygote, tmp_path, "fast path") as client:
        client.post("/models/doubles/promote", json={"version": 1})
        tracehouse.Client(str(client.base_url)).models.promote("doubles", 2, move_back_after=1)
        model = client.get("/models/doubles").json()
        assert [model[name] for name in ("default_version", "move_back_after", "move_back_to")] == [2, 1, 1]
        assert "It is moved back to version 1 after 1 wrong answer." in client.get(PAGE).text

        ask(client, RIGHT)
        ask(client, WRONG)
        until(lambda: client.get("/models/doubles").json()["default_version"] == 1)

        model = client.get("/models/doubles").json()
        assert (model["moved_back"]["version"], model["moved_back"]["different"]) == (2, 1)
        answered = client.post("/infer/doubles", json=RIGHT).json()
        assert (answered["model_version"], answered["outputs"][0]["data"]) == ("1", [2, 4])
        assert "Moved back from version 2" in client.get(PAGE).text


def test_the_studio_shows_what_was_found(store: Store, torch_zygote: Zygote, tmp_path: Path, trace: Any) -> None:
    register(store, trace)
    with checking(store, torch_zygote, tmp_path, "app") as client:
        assert "Live check" not in client.get(PAGE, params={"version": 1}).text
        for body in (RIGHT, RIGHT, WRONG):
            ask(client, body, "doubles:1")
        until(lambda: live_check(client, 1)["different"] == 1 and live_check(client, 1)["equal"] == 2)

        page = client.get(PAGE, params={"version": 1}).text

        assert "Live check of version 1" in page
        assert re.findall(r"<dt>(\w+)</dt><dd>(?:<strong>)?(\d)", page)[:3] == [
            ("Drawn", "3"),
            ("Equal", "2"),
            ("Different", "1"),
        ]
        [file] = re.findall(r'href="(/models/doubles/versions/1/counterexamples/0.npz)"', page)
        assert client.get(file).content.startswith(b"PK")
        assert "the model gives 300.0" in page
        assert "Live check" not in client.get(PAGE, params={"version": 2}).text


def test_a_default_version_is_not_guarded_by_a_check_that_is_off(client: TestClient) -> None:
    client.post("/trace", json=spec(), headers={"prefer": "wait=30"})

    refused = client.post("/models/linear/promote", json={"version": 1, "move_back_after": 1})

    assert_problem(refused, 409, "nothing-is-checked")


def test_an_alias_is_not_guarded_by_a_check_that_is_off(client: TestClient) -> None:
    client.post("/trace", json=spec(), headers={"prefer": "wait=30"})

    refused = client.put("/models/linear/aliases/prod", json={"version": 1, "move_back_after": 1})

    assert_problem(refused, 409, "nothing-is-checked")


@pytest.mark.parametrize("limit", [0, -1, 1.5, "2", True])
def test_a_limit_that_is_no_number_of_answers_is_refused(client: TestClient, limit: Any) -> None:
    client.post("/trace", json=spec(), headers={"prefer": "wait=30"})

    refused = client.put("/models/linear/aliases/prod", json={"version": 1, "move_back_after": limit})

    assert assert_problem(refused, 422, "invalid-request")["errors"][0]["pointer"] == "/move_back_after"


def test_an_alias_that_was_nowhere_else_cannot_be_guarded(
    store: Store, torch_zygote: Zygote, tmp_path: Path, trace: Any
) -> None:
    register(store, trace)
    with checking(store, torch_zygote, tmp_path, "app") as client:
        refused = client.put(PROD, json={"version": 2, "move_back_after": 1})

        assert_problem(refused, 409, "nothing-to-move-back-to")
        assert_problem(client.get(PROD), 404, "alias-not-found")
