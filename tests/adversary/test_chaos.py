"""Processes are killed and stopped, and their PostgreSQL is restarted, killed and frozen, while they have requests.

What is done hangs on what the processes have done so far, and not on time. `benchmarks/chaos.py` does more of it, at
random.
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from benchmarks.chaos import Cluster, Follower, Member, judge
from tests.acceptance.conftest import ANSWER_S
from tests.conftest import wait_until
from tests.postgres_server import why_there_is_none

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(why_there_is_none() is not None, reason=f"no PostgreSQL of its own: {why_there_is_none()}"),
]

REQUESTS = 12
SECONDS = 1.0  # that the source of each takes


def test_every_acknowledged_request_ends_once_whatever_is_killed_stopped_or_restarted(tmp_path: Path) -> None:
    with Cluster.open(tmp_path) as cluster, ThreadPoolExecutor(4) as clients:
        follower = Follower(cluster)
        follower.start()
        sent = [clients.submit(cluster.submit, number, SECONDS) for number in range(REQUESTS)]
        stopped, killed, _ = cluster.workers

        cluster.restart_database()
        request_id, attempt = _stop_in_the_midst(cluster, stopped)
        cluster.kill(cluster.apis[1])
        wait_until(lambda: bool(cluster.runs(killed)))
        cluster.kill(killed)
        cluster.kill_database()
        wait_until(lambda: _attempt(cluster, request_id) > attempt)
        stopped.go_on()  # it counts as lost, and has a result of the earlier attempt to tell
        acknowledged = [one.result() for one in sent]
        follower.finish(acknowledged)
        _ask_while_frozen(cluster, request_id)

        assert [stopped.end(), cluster.workers[2].end()] == [0, 0]
        follower.look()
        outcome = judge(cluster, acknowledged, follower)
        assert not outcome.wrong
        assert (outcome.requests, outcome.reruns > 0) == (REQUESTS, True)


def _ask_while_frozen(cluster: Cluster, request_id: str) -> None:
    """Whoever asks is refused, and answered as soon as the database goes on."""
    url = f"{cluster.addresses[0]}/trace/{request_id}"
    cluster.server.freeze()
    refused = httpx.get(url, timeout=ANSWER_S)
    assert (refused.status_code, refused.json()["code"]) == (503, "storage-unavailable"), refused.text
    assert "retry-after" in refused.headers
    cluster.server.go_on()
    wait_until(lambda: httpx.get(url, timeout=ANSWER_S).status_code == 200)


def _stop_in_the_midst(cluster: Cluster, worker: Member) -> tuple[str, int]:
    """Stop the worker while it runs a request, and return that with its attempt."""
    while True:
        wait_until(lambda: bool(cluster.runs(worker)))
        cluster.stop(worker)
        if runs := cluster.runs(worker):
            return runs[0]
        worker.go_on()  # it has just ended the request


def _attempt(cluster: Cluster, request_id: str) -> int:
    [(attempt,)] = cluster.query("SELECT attempt FROM trace_requests WHERE id = %s", request_id)
    return int(attempt)
