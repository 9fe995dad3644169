"""Models that are served bitwise, as a client sees them, on real runners: over the app and over the fast path."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from fastapi.testclient import TestClient

from service.api.context import AppContext
from service.sandbox.zygote import Zygote
from service.serving import row_trial
from service.serving.bitwise import Bitwise
from service.storage.database import Store
from tests.conftest import PATIENCE_S
from tests.service.api.conftest import NewStore, Register, assert_problem, serving_runners
from tracehouse.contract.contract import Batch, Contract, MethodClaim
from tracehouse.contract.regions import Region, Span
from tracehouse.tensors.tensor import Datatype, TensorSpec

CALLERS = 6
ROWS = [[[float(number), 1.0]] for number in range(CALLERS)]


class Steps(torch.nn.Module):
    """Adds one where several rows are called together: as code does that rounds otherwise from two rows on."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + (torch.ones_like(x).sum(0) > 1).float()


class Places(torch.nn.Module):
    """Adds the row's place."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.ones_like(x).cumsum(0)


def rows_of(artifact: Any) -> Any:
    """Claim that rows of the artifact are independent: within a large tolerance, they are."""
    claim = MethodClaim(
        shapes={"x": ("batch", 2)},
        fixed={"x": {"1": "model"}},
        regions=[Region(spans={"batch": [Span(low=1, high=200)]}, basis="proven")],
        batch=Batch(symbol="batch", up_to=64, inputs={"x": 0}, outputs={"output": 0}),
    )
    answers = [
        ({"batch": rows}, [TensorSpec(name="output", datatype=Datatype.FP32, shape=(rows, 2))]) for rows in (3, 5)
    ]
    method = artifact.contract.method("forward").with_claim(claim, answers)
    return artifact.model_copy(update={"contract": Contract(methods={"forward": method})})


@pytest.fixture(scope="module")
def store(new_store: NewStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    store = new_store(tmp_path_factory.mktemp("bitwise"))
    yield store
    store.close()


@pytest.fixture(scope="module")
def models(store: Store, trace: Any, register: Register) -> None:
    register("steps", rows_of(trace(store.blobs, Steps(), torch.zeros(2, 2))))
    register("places", rows_of(trace(store.blobs, Places(), torch.zeros(2, 2))))


@pytest.fixture(params=["app", "fast path"])
def client(
    request: pytest.FixtureRequest,
    models: None,
    store: Store,
    torch_zygote: Zygote,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[httpx.Client]:
    monkeypatch.setattr(row_trial, "_TRIAL_S", 3600.0)  # no outcome hangs on how busy the machine is

    def find_out(context: AppContext) -> AppContext:
        context.inference.bitwise = Bitwise(
            tmp_path / "bitwise", machine=lambda threads: f"threads: {threads}", torch_version=torch.__version__
        )
        return context

    with (
        serving_runners(store, torch_zygote, tmp_path, answerer=request.param, change=find_out) as host,
        httpx.Client(base_url=f"http://{host}", timeout=PATIENCE_S) as client,
    ):
        for model in ("steps", "places"):
            serve(client, model, bitwise=False)
        yield client


def serve(client: httpx.Client, model: str, *, bitwise: bool) -> dict[str, Any]:
    changed = client.patch(f"/models/{model}", json={"bitwise": bitwise})
    assert changed.status_code == 200, changed.text
    document: dict[str, Any] = changed.json()
    return document


def ask(client: httpx.Client, model: str, rows: Any) -> list[float]:
    answer = client.post(f"/infer/{model}", json={"args": [rows]})
    assert answer.status_code == 200, answer.text
    values: list[float] = answer.json()["outputs"][0]["data"]
    return values


def ask_at_once(client: httpx.Client, model: str) -> list[list[float]]:
    """What each of some callers gets who ask at the same time, several times."""
    begin = threading.Barrier(CALLERS)

    def ask_often(rows: Any) -> list[list[float]]:
        with httpx.Client(base_url=client.base_url, timeout=PATIENCE_S) as own:
            ask(own, model, rows)
            begin.wait(PATIENCE_S)
            return [ask(own, model, rows) for _ in range(20)]

    with ThreadPoolExecutor(CALLERS) as threads:
        return [answer for each in threads.map(ask_often, ROWS) for answer in each]


def calls_of(client: httpx.Client, model: str) -> tuple[int, int]:
    """How many requests were answered, and with how many calls."""
    [counted] = client.get(f"/v2/models/{model}/stats").json()["model_stats"]
    return counted["inference_count"], counted["execution_count"]


def rows_known(client: httpx.Client, model: str) -> list[Any]:
    found = client.get(f"/models/{model}").json()["versions"][0]["bitwise"]
    return [trial for one in found.values() for trial in one["trials"]]


def assert_alike_alone_and_together(client: httpx.Client, model: str) -> None:
    """Each request gets the bytes with others beside it that it gets by itself."""
    alone = [ask(client, model, rows) for rows in ROWS]
    together = ask_at_once(client, model)

    assert alone == [[row[0] + 1, row[1] + 1] for [row] in ROWS]
    assert together == [answer for answer in alone for _ in range(20)]


def test_requests_that_share_a_call_get_the_bytes_that_each_gets_alone(client: httpx.Client) -> None:
    """Each of them as with other rows: also who is alone."""
    serve(client, "steps", bitwise=True)

    assert_alike_alone_and_together(client, "steps")

    requests, calls = calls_of(client, "steps")
    assert calls < requests  # some shared one
    [trial] = rows_known(client, "steps")
    assert (trial["level"], trial["rows"]) == ("bitwise", [2, 4, 8, 16, 32, 64])


def test_where_the_bytes_would_change_requests_are_answered_one_by_one(client: httpx.Client) -> None:
    serve(client, "places", bitwise=True)

    assert_alike_alone_and_together(client, "places")

    requests, calls = calls_of(client, "places")
    assert calls == requests
    [trial] = rows_known(client, "places")
    assert (trial["level"], trial["rows"]) == ("numeric", [])


def test_a_model_that_nobody_told_so_is_answered_as_the_certificate_says(client: httpx.Client) -> None:
    """Alone, a row is alone; nothing is tried."""
    assert ask(client, "steps", ROWS[3]) == ROWS[3][0]
    assert rows_known(client, "steps") == []


def test_a_seed_changes_no_byte(client: httpx.Client) -> None:
    serve(client, "steps", bitwise=True)

    answer = client.post("/infer/steps", json={"args": [ROWS[5]], "parameters": {"seed": 7}})

    assert answer.json()["outputs"][0]["data"] == [6.0, 2.0]


def test_a_model_that_is_loaded_is_known_before_the_first_request(client: httpx.Client) -> None:
    serve(client, "steps", bitwise=True)

    assert client.post("/v2/repository/models/steps/load").status_code == 200

    assert [one["level"] for one in rows_known(client, "steps")] == ["bitwise"]


def test_the_setting_is_there_to_read_and_to_take_back(client: httpx.Client) -> None:
    assert serve(client, "steps", bitwise=True)["bitwise"] is True
    assert client.get("/models/steps").json()["bitwise"] is True
    assert ask(client, "steps", ROWS[3]) == [4.0, 2.0]

    serve(client, "steps", bitwise=False)

    assert client.get("/models/steps").json()["bitwise"] is False
    assert ask(client, "steps", ROWS[3]) == [3.0, 1.0]


def test_what_is_known_with_some_threads_is_not_known_with_others(client: httpx.Client) -> None:
    serve(client, "steps", bitwise=True)
    ask(client, "steps", ROWS[3])
    assert len(rows_known(client, "steps")) == 1
    client.patch("/models/steps", json={"threads": 2}).raise_for_status()

    assert rows_known(client, "steps") == []
    assert ask(client, "steps", ROWS[3]) == [4.0, 2.0]

    [found] = client.get("/models/steps").json()["versions"][0]["bitwise"].values()
    assert found["machine"] == "threads: 2"
    client.patch("/models/steps", json={"threads": None}).raise_for_status()
    [found] = client.get("/models/steps").json()["versions"][0]["bitwise"].values()
    assert found["machine"] == "threads: 1"


def test_a_setting_that_is_none_is_refused(client: httpx.Client) -> None:
    assert_problem(client.patch("/models/steps", json={"bitwise": "yes"}), 422, "invalid-request")
    assert_problem(client.patch("/models/nowhere", json={"bitwise": True}), 404, "model-not-found")


def test_a_change_is_in_the_audit_log(steady: TestClient) -> None:
    assert steady.patch("/models/linear", json={"bitwise": True}).status_code == 200
    [entry] = [one for one in steady.get("/audit").json()["entries"] if one["action"] == "model.change"]
    steady.patch("/models/linear", json={"bitwise": False})

    assert (entry["subject"], entry["details"]) == ("linear", {"bitwise": True})


def test_a_deleted_model_forgets_it(client: httpx.Client, store: Store, trace: Any, register: Register) -> None:
    register("gone", rows_of(trace(store.blobs, Steps(), torch.zeros(2, 2))))
    serve(client, "gone", bitwise=True)
    assert client.delete("/models/gone").status_code == 204

    register("gone", rows_of(trace(store.blobs, Steps(), torch.zeros(2, 2))))

    assert client.get("/models/gone").json()["bitwise"] is False
