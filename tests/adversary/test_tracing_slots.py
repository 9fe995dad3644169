"""Tracing slots: whoever fills them with what never ends keeps nobody else from tracing."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.conftest import Service, linear
from tests.acceptance.test_keys import keys
from tests.conftest import wait_until

pytestmark = pytest.mark.slow

SLOTS = 2
SETTINGS = {"API_KEYS": "required", "TRACE_SLOTS": str(SLOTS), "KEY_REQUESTS_PER_MINUTE": "1000000"}
FOR_EVER = str(24 * 3600)
LOOP = """
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        while True:
            pass
"""

Start = Callable[..., dict[str, httpx.Client]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a service with these settings and tenants; a client for each tenant."""
    state = tmp_path / "state"
    with ExitStack() as opened:

        def start(*tenants: str, **settings: str) -> dict[str, httpx.Client]:
            tokens = {tenant: keys(state, "create", tenant, "--tenant", tenant) for tenant in tenants}
            service = Service(state, **SETTINGS, **settings)
            opened.callback(service.close)
            clients = {tenant: opened.enter_context(service.client()) for tenant in tenants}
            for tenant, token in tokens.items():
                clients[tenant].headers["authorization"] = f"Bearer {token}"
            return clients

        yield start


def submit(client: httpx.Client, **changes: Any) -> str:
    """The path of a new trace request."""
    answer = client.post("/trace", json=linear(force=True, **changes))
    assert answer.status_code == 202, answer.text
    return str(answer.json()["links"]["self"])


def submit_loop(client: httpx.Client, **changes: Any) -> str:
    return submit(client, model="loop", source={"files": {"net.py": LOOP}, "entrypoint": "net:Net"}, **changes)


def read(client: httpx.Client, path: str) -> dict[str, Any]:
    answer: dict[str, Any] = client.get(path).raise_for_status().json()
    return answer


def is_running(client: httpx.Client, path: str, attempt: int = 1) -> bool:
    request = read(client, path)
    return (request["state"], request["attempt"]) == ("running", attempt)


def test_a_tenant_that_fills_every_slot_for_ever_keeps_no_other_from_tracing(start: Start) -> None:
    """What it loses is one slot, for as long as the other needs it. No slot is idle meanwhile."""
    clients = start("loops", "traces", TRACE_WALL_S=FOR_EVER, TRACE_CPU_S=FOR_EVER)
    loops, traces = clients["loops"], clients["traces"]
    oldest, youngest, waits = (submit_loop(loops) for _ in range(SLOTS + 1))
    wait_until(lambda: is_running(loops, oldest) and is_running(loops, youngest))

    traced = submit(traces, check={"probes": "off"})

    wait_until(lambda: read(traces, traced)["state"] in ("succeeded", "failed"))
    assert read(traces, traced)["verdict"] == "verified"
    wait_until(lambda: is_running(loops, youngest, attempt=2))
    assert is_running(loops, oldest, attempt=1), "the oldest of a tenant is never stopped"
    assert (read(loops, waits)["state"], read(loops, waits)["position"]) == ("queued", 1)


def test_what_never_ends_in_every_slot_does_not_stop_all_tracing_of_its_own_tenant(start: Start) -> None:
    """It has all day, and what comes later has a slot once it has run for longer than a quick trace may.

    One after the other: on a busy machine each of these may run for longer than that itself.
    """
    [client] = start("mine", TRACE_WALL_QUICK_S="2", TRACE_WALL_S=FOR_EVER, TRACE_CPU_S=FOR_EVER).values()
    oldest, youngest = (submit_loop(client) for _ in range(SLOTS))
    wait_until(lambda: is_running(client, oldest) and is_running(client, youngest))

    for number in range(2):
        traced = submit(client, model=f"model-{number}", check={"probes": "off"})
        wait_until(lambda traced=traced: read(client, traced)["state"] in ("succeeded", "failed"))  # type: ignore[misc]
        assert read(client, traced)["verdict"] == "verified"

    wait_until(lambda: is_running(client, youngest, attempt=3))
    assert is_running(client, oldest, attempt=1), "the oldest is never stopped"


def test_what_never_ends_is_given_up_after_the_time_of_its_budget(start: Start) -> None:
    """The problem names that limit, and the budgets that have more."""
    [client] = start("loops", TRACE_WALL_QUICK_S="2", TRACE_WALL_S="100000", TRACE_CPU_S=FOR_EVER).values()
    quick, normal = submit_loop(client, check={"budget": "quick"}), submit_loop(client)

    wait_until(lambda: read(client, quick)["state"] == "failed")

    problem = read(client, quick)["problem"]
    assert (problem["code"], problem["limit"], problem["limit_s"]) == ("limit-exceeded", "wall", 2)
    assert problem["budget"] == "quick"
    assert "check.budget normal (100000 s) or deep (300000 s)" in problem["remedy"]
    assert read(client, normal)["state"] != "failed"
