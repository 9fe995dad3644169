"""SIGTERM: what runs is not lost, what is asked is answered, nothing stays behind."""

import subprocess
import threading
import time
from typing import Any

import httpx
import psutil

from tests.acceptance.conftest import ANSWER_S, TRACEHOUSE, Service, StartService, ended, linear
from tests.acceptance.test_kill import slow_source, wait_until_running

SLOW_GRAPH = """\
import torch


class Net(torch.nn.Module):
    def forward(self, x):
        for _ in range(300):
            x = torch.mm(x, x).softmax(-1)
        return x
"""


def test_inference_in_flight_is_answered_no_process_stays_behind_and_a_running_trace_is_queued_again(
    start_service: StartService,
) -> None:
    """That it did not end costs the trace no attempt."""
    service = start_service(TRACE_ATTEMPTS="1")
    size = [256, 256]
    with service.client() as client:
        spec = linear(
            model="slow-graph",
            source={"files": {"net.py": SLOW_GRAPH}, "entrypoint": "net:Net"},
            example_inputs=[{"datatype": "FP32", "shape": size, "random": {"seed": 0}}],
            check={"probes": "off"},  # its layers would call a slow graph some hundred times
        )
        assert ended(client, client.post("/trace", json=spec))["verdict"] == "verified"
        body: dict[str, Any] = {"args": [[[0.01] * size[1]] * size[0]]}
        assert client.post("/infer/slow-graph", json=body).status_code == 200
        running = client.post("/trace", json=linear(source=slow_source(), model="slow")).json()
        wait_until_running(client, running["id"])
    answers: list[int] = []

    def ask() -> None:
        answers.append(httpx.post(f"{service.address}/infer/slow-graph", json=body, timeout=ANSWER_S).status_code)

    asking = threading.Thread(target=ask)
    asking.start()
    with service.client() as client:
        while not answers and 'tracehouse_runners{device="cpu",state="busy"} 1.0' not in client.get("/metrics").text:
            time.sleep(0.001)
    family = psutil.Process(service.process.pid).children(recursive=True)
    assert family
    assert service.terminate() == 0
    asking.join()
    assert answers == [200]
    _, alive = psutil.wait_procs(family, timeout=ANSWER_S)
    assert alive == []

    service.start()
    with service.client() as client:
        after = ended(client, client.get(f"/trace/{running['id']}"))
    assert after["state"] == "succeeded"


def test_a_second_service_on_the_same_state_is_refused(service: Service) -> None:
    second = subprocess.run(
        [TRACEHOUSE, "serve", "--port", "0", "--state", service.state], capture_output=True, check=False, text=True
    )
    assert (second.returncode, "--state" in second.stderr) == (2, True)
