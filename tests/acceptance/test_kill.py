"""kill -9 at any moment, and a restart: nothing acknowledged is lost, nothing is done twice."""

import threading
import time
from collections import Counter
from typing import Any

import httpx

from tests.acceptance.conftest import ANSWER_S, Service, StartService, ended, linear
from tests.conftest import wait_until

# Each comes half a second later than the one before: from a service that has only just started, to one that has traced
# some models and is half-way through others.
KILLS = 5
LIFE_S = 2.0


class Submitter(threading.Thread):
    """Submits a new model again and again, whether or not the service is there, and keeps what was acknowledged."""

    def __init__(self, service: Service) -> None:
        super().__init__(daemon=True)
        self.service = service
        self.acknowledged: dict[str, str] = {}
        self.done = threading.Event()

    def run(self) -> None:
        number = 0
        while not self.done.is_set():
            number += 1
            name = f"model-{number}"
            # Without the layers of the check, which take half of a trace: what is shown is how requests end.
            body = linear(model=name, options={"seed": number}, check={"probes": "off"})
            try:
                answer = httpx.post(f"{self.service.address}/trace", json=body, timeout=ANSWER_S, verify=False)
            except httpx.HTTPError:
                self.done.wait(0.05)  # it is down: a client waits before it asks again
                continue
            if answer.status_code == 202:
                self.acknowledged[answer.json()["id"]] = name
            else:
                assert answer.status_code == 503, answer.text
            self.done.wait(0.15)


def test_every_acknowledged_request_ends_exactly_once(start_service: StartService) -> None:
    service = start_service(TRACE_ATTEMPTS="100")
    submitter = Submitter(service)
    submitter.start()
    for number in range(KILLS):
        time.sleep(LIFE_S * number / (KILLS - 1))
        service.kill()
        service.start()
    wait_until(lambda: len(submitter.acknowledged) > KILLS)  # a busy machine takes few in so short a life
    submitter.done.set()
    submitter.join()

    with service.client() as client:
        for request_id, name in submitter.acknowledged.items():
            request = ended(client, client.get(f"/trace/{request_id}"))
            assert request["state"] == "succeeded", request
            assert kinds_of_events(client, request)["end"] == 1
            assert [version["version"] for version in client.get(f"/models/{name}").json()["versions"]] == [1]


def test_a_running_request_is_traced_again_after_a_kill_and_given_up_after_its_last_attempt(
    start_service: StartService,
) -> None:
    """One ends when it is traced again; the other one would take the service with it for ever."""
    service = start_service(TRACE_ATTEMPTS="2", TRACE_SLOTS="2")
    with service.client() as client:
        slow = client.post("/trace", json=linear(source=slow_source(), model="slow")).json()
        fatal = client.post("/trace", json=linear(source=sleeping(), model="fatal")).json()
        for request in (slow, fatal):
            wait_until_running(client, request["id"])
    service.kill()
    service.start()
    with service.client() as client:
        after = ended(client, client.get(f"/trace/{slow['id']}"))
        assert (after["state"], after["attempt"]) == ("succeeded", 2)
        wait_until(lambda: runs_again(client.get(f"/trace/{fatal['id']}").json()))
    service.kill()
    service.start()
    with service.client() as client:
        after = ended(client, client.get(f"/trace/{fatal['id']}"))
    assert (after["state"], after["problem"]["code"]) == ("failed", "tracer-lost")


def runs_again(request: dict[str, Any]) -> bool:
    return (request["state"], request["attempt"]) == ("running", 2)


def slow_source() -> dict[str, Any]:
    text = "import time\nimport torch\ntime.sleep(2)\nnet = torch.nn.Linear(2, 3)\n"
    return {"files": {"slow.py": text}, "entrypoint": "slow:net"}


def sleeping() -> dict[str, Any]:
    return {"files": {"sleeps.py": "import time\ntime.sleep(3600)\n"}, "entrypoint": "sleeps:net"}


def wait_until_running(client: httpx.Client, request_id: str) -> None:
    with client.stream("GET", f"/trace/{request_id}/events") as events:
        for line in events.iter_lines():
            if line.startswith("data:") and '"loading"' in line.replace(" ", ""):
                return
    raise AssertionError("the request never ran")


def kinds_of_events(client: httpx.Client, request: dict[str, Any]) -> Counter[str]:
    lines = client.get(request["links"]["events"]).text.splitlines()
    return Counter(line.removeprefix("event:").strip() for line in lines if line.startswith("event:"))
