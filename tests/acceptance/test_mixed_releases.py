"""An update while the service works, with processes of this release and of the next, and a step back from it."""

import os
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.cluster import POSTGRES_URL, Cluster
from tests.acceptance.conftest import TRACEHOUSE, Service, ended, get, linear
from tests.acceptance.next_release import CLAUSE, PROMOTION, REVISION, make_next_release
from tests.acceptance.test_kill import slow_source, wait_until_running

INPUTS = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1.0, 2.0]}]}


def new() -> dict[str, Any]:
    return linear(force=True)


def infer(address: str, model: str) -> httpx.Response:
    return httpx.post(f"{address}/infer/{model}", json=INPUTS, timeout=300, verify=False)


@pytest.mark.skipif(POSTGRES_URL is None, reason="there is no PostgreSQL: TEST_POSTGRES_URL names one")
def test_each_release_does_what_it_can_until_all_are_of_the_next(tmp_path: Path) -> None:
    program = make_next_release(tmp_path / "next", CLAUSE)
    with Cluster.open(tmp_path) as cluster:
        later = cluster.of_release(program)
        api, serving = cluster.start_api("api"), cluster.start_infer("infer")
        cluster.start_worker(api)
        with api.client() as client:
            assert ended(client, client.post("/trace", json=new()))["model"]["version"] == 1

            # The first process of the next release changes the tables, and the others go on.
            next_api = later.start_api("next-api")
            assert get(f"{api.address}/readyz").status_code == 200
            assert infer(serving.address, "linear").status_code == 200
            with next_api.client() as next_client:
                waits = next_client.post("/trace", json=new()).json()
                before = ended(client, client.post("/trace", json=new()))  # it came later, and did not wait
                assert (before["verdict"], before["model"]["version"]) == ("verified", 2)
                for address in (api.address, next_api.address):
                    status = get(f"{address}/trace/{waits['id']}").json()
                    assert (status["state"], status["attempt"]) == ("queued", 0)
                    assert status["waiting"].startswith("all workers in pool cpu are of an older release")
                assert waits["id"] in [one["id"] for one in get(f"{api.address}/trace").json()["trace_requests"]]

                later.start_worker(next_api)
                after = ended(next_client, httpx.Response(202, json=waits))
                assert (after["verdict"], after["model"]["version"]) == ("verified", 3)

        # What the earlier release cannot read, it refuses: it must not answer without a clause that it does not know.
        refused = infer(serving.address, "linear:3")
        assert (refused.status_code, refused.json()["code"]) == (503, "release-too-old")
        assert refused.headers["retry-after"]
        assert infer(serving.address, "linear:2").status_code == 200
        next_serving = later.start_infer("next-infer")
        assert [infer(next_serving.address, f"linear:{one}").status_code for one in (1, 2, 3)] == [200] * 3
        artifact = get(f"{api.address}{after['links']['artifact']}")
        assert (artifact.status_code, artifact.json()["code"]) == (503, "release-too-old")

        # The earlier release can also be started again, as after a step back.
        migrated = subprocess.run(
            [TRACEHOUSE, "migrate"],
            env=os.environ | {"DATABASE_URL": cluster.database_url},
            capture_output=True,
            check=True,
            text=True,
        )
        assert f"at revision {REVISION}, of a newer release, and this one may use them" in migrated.stdout
        again = cluster.start_infer("again")
        assert infer(again.address, "linear:1").status_code == 200


def test_after_a_step_back_the_earlier_release_goes_on_and_loses_nothing(tmp_path: Path) -> None:
    program, state = make_next_release(tmp_path / "next", PROMOTION), tmp_path / "state"
    slow = linear(model="slow", source=slow_source())
    key = {"Idempotency-Key": "sent again after the step back"}
    with closing(Service(state)) as service, service.client() as client:
        assert ended(client, client.post("/trace", json=new()))["model"]["version"] == 1
    with closing(Service(state, program=program)) as service, service.client() as client:
        assert ended(client, client.post("/trace", json=new()))["promotion"]["added"] is None
        waits = client.post("/trace", json=slow, headers=key).json()
        wait_until_running(client, waits["id"])
        service.kill()

    with closing(Service(state)) as service, service.client() as client:
        for path in ("/models", "/models/linear", "/v2/models/stats"):
            refused = client.get(path)
            assert (refused.status_code, refused.json()["code"]) == (503, "release-too-old"), path
        assert infer(service.address, "linear").json()["code"] == "release-too-old"
        assert infer(service.address, "linear:1").status_code == 200
        again = client.post("/trace", json=slow, headers=key).json()
        assert (again["id"], again["state"]) == (waits["id"], "queued")
        assert again["waiting"].startswith("all workers in pool cpu are of an older release")
        assert ended(client, client.post("/trace", json=new()))["model"]["version"] == 3
        gc = subprocess.run([TRACEHOUSE, "gc", "--state", state], capture_output=True, check=False, text=True)
        assert (gc.returncode, "Nothing is removed" in gc.stderr) == (2, True)

    with closing(Service(state, program=program)) as service, service.client() as client:
        assert ended(client, httpx.Response(202, json=waits))["model"] == {"name": "slow", "version": 1}
        assert [infer(service.address, f"linear:{one}").status_code for one in (1, 2, 3)] == [200] * 3
