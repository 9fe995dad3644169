"""Hosts that vanish from the network: whatever is sent to them is lost, and no connection is closed."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.cluster import Cluster
from tests.acceptance.conftest import ANSWER_S, TRACEHOUSE, Service, ended, linear
from tests.acceptance.test_kill import kinds_of_events, slow_source, wait_until_running
from tests.acceptance.test_storage import parts
from tests.conftest import wait_until
from tests.hosts import Host, Network, why_there_are_none
from tests.postgres_server import PostgresServer, why_there_is_none
from tests.s3_server import S3Server

_WHY_NOT = why_there_are_none() or why_there_is_none()
_ESTABLISHED = "01"
pytestmark = [pytest.mark.slow, pytest.mark.skipif(_WHY_NOT is not None, reason=f"no hosts: {_WHY_NOT}")]


class Hosts:
    """This machine with PostgreSQL, and hosts beside it with processes of the service."""

    def __init__(self, network: Network, database: PostgresServer, directory: Path, running: ExitStack) -> None:
        self.network = network
        self._database = database
        self._directory = directory
        self._running = running

    def cluster(self, host: Host | None = None) -> Cluster:
        """What starts processes there; without a host, on this machine."""
        program = TRACEHOUSE if host is None else host.program(TRACEHOUSE)
        return Cluster(self._directory, self._database.url, self._running, program)


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    with (
        Network.open(tmp_path) as network,
        PostgresServer(network.address) as database,
        ExitStack() as running,
    ):
        yield Hosts(network, database, tmp_path, running)


def test_a_worker_whose_host_is_cut_off_joins_again_and_keeps_no_dead_connection(hosts: Hosts) -> None:
    host = hosts.network.add("worker")
    api = hosts.cluster().start_api("api")
    worker = hosts.cluster(host).start_worker(api, "--port", "0")
    with api.client() as client:
        request = client.post("/trace", json=linear(source=slow_source(), model="slow")).json()
        wait_until_running(client, request["id"])
        before = _connections(worker.process.pid)
        assert before

        host.cut()
        wait_until(lambda: client.get(f"/trace/{request['id']}").json()["state"] == "queued")
        wait_until(lambda: not before & _connections(worker.process.pid))
        refused = host.ask(lambda: _get(worker.address, "/readyz"))
        assert (refused.status_code, refused.json()["code"]) == (503, "storage-unavailable"), refused.text
        assert host.ask(lambda: _get(worker.address, "/livez")).status_code == 200
        host.mend()

        after = ended(client, client.get(f"/trace/{request['id']}"))
        assert after["state"] == "succeeded"
        assert after["attempt"] >= 2  # more where a busy machine keeps a worker silent for too long
        assert kinds_of_events(client, after)["end"] == 1
        assert [version["version"] for version in client.get("/models/slow").json()["versions"]] == [1]
        assert host.ask(lambda: _get(worker.address, "/readyz")).status_code == 200
    assert worker.end() == 0


def test_a_replica_that_is_cut_off_says_why_and_answers_again(hosts: Hosts) -> None:
    store_host, replica_host = hosts.network.add("store"), hosts.network.add("replica")
    with S3Server(store_host) as store:
        store.start()
        files = {"BLOB_URL": store.create_bucket().url, **store.environment}
        api = hosts.cluster().start_api("api", **files)
        hosts.cluster().start_worker(api, **files)
        replica = hosts.cluster(replica_host).start_api("replica", **files)
        with api.client() as client:
            assert ended(client, client.post("/trace", files=parts("net")))["state"] == "succeeded"
            outputs = _outputs(_infer(api))
            assert _outputs(replica_host.ask(lambda: _infer(replica))) == outputs

            # The replica is cut off from everything.
            replica_host.cut()
            wait_until(lambda: _refused(replica_host, replica) == "storage-unavailable")
            submitted = replica_host.ask(lambda: _post(replica, "/trace", json=linear(model="lost")))
            for refused in (submitted, replica_host.ask(lambda: _infer(replica))):
                assert (refused.status_code, refused.json()["code"]) == (503, "storage-unavailable"), refused.text
                assert "retry-after" in refused.headers
            assert replica_host.ask(lambda: _get(replica.address, "/livez")).status_code == 200
            assert _infer(api).status_code == 200, "the others go on"
            replica_host.mend()
            wait_until(lambda: _refused(replica_host, replica) is None)
            assert _outputs(replica_host.ask(lambda: _infer(replica))) == outputs
            assert client.get("/models/lost").status_code == 404, "what was refused is not traced"

            # The store's host is gone.
            store_host.cut()
            wait_until(lambda: _refused(replica_host, replica) == "files-unavailable")
            refused = replica_host.ask(lambda: _post(replica, "/trace", files=parts("late", force=True)))
            assert (refused.status_code, refused.json()["code"]) == (503, "files-unavailable"), refused.text
            assert "retry-after" in refused.headers
            assert replica_host.ask(lambda: _infer(replica)).status_code == 200, "its process runs"
            store_host.mend()
            wait_until(lambda: _refused(replica_host, replica) is None)
            late = replica_host.ask(lambda: _post(replica, "/trace", files=parts("late", force=True)))
            assert ended(client, client.get(f"/trace/{late.json()['id']}"))["state"] == "succeeded"


def _connections(pid: int) -> set[str]:
    """The connections to the database that the host of this process takes for open."""
    lines = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    return {here for _, here, there, state, *_ in lines if (there[-4:], state) == (f"{5432:04X}", _ESTABLISHED)}


def _get(address: str, path: str) -> httpx.Response:
    return httpx.get(address + path, timeout=ANSWER_S, verify=False)


def _post(service: Service, path: str, **body: Any) -> httpx.Response:
    return httpx.post(service.address + path, timeout=ANSWER_S, verify=False, **body)


def _infer(service: Service) -> httpx.Response:
    return _post(service, "/infer/net", json={"args": [[1.0]]})


def _outputs(answer: httpx.Response) -> Any:
    assert answer.status_code == 200, answer.text
    return answer.json()["outputs"]


def _refused(host: Host, service: Service) -> str | None:
    """The code with which it says that it is not ready."""
    answer = host.ask(lambda: _get(service.address, "/readyz"))
    return None if answer.status_code == 200 else str(answer.json()["code"])
