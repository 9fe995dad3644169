"""More is asked than can be answered, while runners are killed or one stands still.

Each request is answered rightly, or ends with a problem that says what became of it.
"""

import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.conftest import Service, ended
from tests.conftest import wait_until

pytestmark = pytest.mark.slow

WAITING_MAX, CALLERS, REQUESTS = 4, 30, 150
NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(256, 256)

    def forward(self, x):
        for _ in range(40):
            x = torch.tanh(self.layer(x))
        return x
"""
SUBMISSION = {
    "model": "net",
    "source": {"files": {"net.py": NET}, "entrypoint": "net:Net"},
    "example_inputs": [{"datatype": "FP32", "shape": [2, 256], "random": {"seed": 0}}],
    "check": {"probes": "off"},
}
QUESTIONS = [{"args": [[[number + 1.0] * 256, [number - 1.0] * 256]]} for number in range(5)]


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Service]:
    running = Service(tmp_path / "state", POOL_WAITING=str(WAITING_MAX), INFER_TIMEOUT_S="2")
    with running.client() as client:
        assert ended(client, client.post("/trace", json=SUBMISSION))["state"] == "succeeded"
    yield running
    running.close()


def runners(service: Service) -> Iterator[int]:
    """The jailed processes below the service: nothing is traced meanwhile."""
    parents: dict[int, int] = {}
    jailed = set()
    for path in Path("/proc").glob("[0-9]*/status"):
        with suppress(OSError):
            lines = dict(line.split(":\t", 1) for line in path.read_text().splitlines() if ":\t" in line)
            parents[int(path.parent.name)] = int(lines["PPid"])
            if lines["Seccomp"] == "2":
                jailed.add(int(path.parent.name))
    for pid in jailed:
        above = pid
        while above in parents and above != service.process.pid:
            above = parents[above]
        if above == service.process.pid:
            yield pid


def flood(client: httpx.Client, right: list[Any]) -> Counter[str]:
    """Ask on many connections at once, and count what came."""

    def ask(number: int) -> str:
        reply = client.post("/infer/net", json=QUESTIONS[number % len(QUESTIONS)])
        if reply.status_code == 200:
            return "right" if reply.json()["outputs"] == right[number % len(QUESTIONS)] else "wrong"
        return f"{reply.json()['code']}, {'come again' if 'retry-after' in reply.headers else 'for good'}"

    with ThreadPoolExecutor(CALLERS) as callers:
        return Counter(callers.map(ask, range(REQUESTS)))


@pytest.mark.parametrize(("sent", "lost_max"), [(signal.SIGKILL, 4), (signal.SIGSTOP, 1)])
def test_runners_that_are_lost_under_load_cost_nobody_a_right_answer(
    running: Service, sent: signal.Signals, lost_max: int
) -> None:
    ends = threading.Event()
    lost: set[int] = set()

    def lose() -> None:
        while not ends.wait(0.05) and len(lost) < lost_max:
            for pid in runners(running):
                lost.add(pid)
                with suppress(ProcessLookupError):
                    os.kill(pid, sent)

    limits = httpx.Limits(max_connections=CALLERS)
    with httpx.Client(base_url=running.address, timeout=None, limits=limits, verify=False) as client:
        right = [client.post("/infer/net", json=one).raise_for_status().json()["outputs"] for one in QUESTIONS]
        with ThreadPoolExecutor(1) as beside:
            losing = beside.submit(lose)
            try:
                came = flood(client, right)
            finally:
                ends.set()
                losing.result()

        assert lost
        assert came.total() == REQUESTS
        assert came["wrong"] == 0
        refused = {one for one in came if one not in ("right", "wrong")}
        assert refused <= {
            "pool-saturated, come again",
            "runner-lost, come again",
            "runner-lost, for good",
            "inference-timeout, for good",
        }

        def is_answered() -> bool:
            return client.post("/infer/net", json=QUESTIONS[0]).status_code == 200

        wait_until(is_answered)
        assert flood(client, right)["wrong"] == 0


def test_of_several_processes_one_after_the_other_is_killed_and_each_request_is_answered_rightly(
    running: Service,
) -> None:
    """None is refused either: a request whose process is lost is asked once more, of another one."""
    replicas = min(2, len(os.sched_getaffinity(0)))  # as many as the machine has cores for
    with running.client() as client:
        client.patch("/models/net", json={"replicas": replicas}).raise_for_status()
        right = [client.post("/infer/net", json=one).raise_for_status().json()["outputs"] for one in QUESTIONS]
        answered, ends, lost = Counter[int](), threading.Event(), 0

        def ask_on(number: int) -> None:
            while not ends.is_set():
                reply = client.post("/infer/net", json=QUESTIONS[number])
                assert reply.status_code == 200, reply.text
                assert reply.json()["outputs"] == right[number]
                answered[number] += 1

        with ThreadPoolExecutor(WAITING_MAX) as callers:
            asked = [callers.submit(ask_on, number) for number in range(WAITING_MAX)]

            def wait_for_all(before: Counter[int]) -> None:
                """What was asked twice is answered by then, and all processes are there again."""
                wait_until(
                    lambda: (
                        any(one.done() for one in asked)
                        or (
                            count_running(client) == replicas
                            and all(answered[number] > before[number] + 1 for number in range(WAITING_MAX))
                        )
                    )
                )

            try:
                wait_for_all(Counter())
                while lost < 6 and not any(one.done() for one in asked):
                    before, pid = answered.copy(), next(runners(running))
                    os.kill(pid, signal.SIGKILL)
                    lost += 1
                    wait_until(lambda pid=pid: pid not in set(runners(running)))
                    wait_for_all(before)
            finally:
                ends.set()
            for one in asked:
                one.result()

        assert lost == 6


def count_running(client: httpx.Client) -> int:
    """How many processes the service says that answer for the model."""
    [version] = client.get("/models/net").json()["versions"]
    return sum(version["running"].values())
