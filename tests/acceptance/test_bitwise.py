"""A model that is served bitwise: each caller gets the bytes that it gets alone, as docs/bitwise.md says."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np

import tracehouse
from tests.acceptance.conftest import ANSWER_S, Service, ended

NET = """
import torch

class Net(torch.nn.Sequential):
    def __init__(self):
        super().__init__(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
"""
SUBMISSION = {
    "model": "bitwise",
    "source": {"files": {"net.py": NET}, "entrypoint": "net:Net"},
    "example_inputs": [{"datatype": "FP32", "shape": [2, 16], "random": {"seed": 0}}],
}
CALLERS, TIMES = 8, 50
BYTES = {"Content-Type": "application/octet-stream", "Accept": "application/octet-stream"}


def ask(client: httpx.Client, row: bytes) -> bytes:
    answer = client.post("/infer/bitwise", content=row, headers=BYTES)
    assert answer.status_code == 200, answer.text
    return answer.content


def ask_at_once(service: Service, rows: list[bytes]) -> list[set[bytes]]:
    """All that each caller gets who asks the same again and again while the others ask."""
    begin = threading.Barrier(CALLERS)

    def ask_often(row: bytes) -> set[bytes]:
        with service.client() as client:
            begin.wait(ANSWER_S)
            return {ask(client, row) for _ in range(TIMES)}

    with ThreadPoolExecutor(CALLERS) as threads:
        return [*threads.map(ask_often, rows)]


def trials(client: httpx.Client) -> list[dict[str, Any]]:
    found = client.get("/models/bitwise").json()["versions"][0]["bitwise"]
    return [trial for one in found.values() for trial in one["trials"]]


def test_who_else_asks_changes_no_byte(service: Service) -> None:
    rows = [row.tobytes() for row in np.random.default_rng(0).standard_normal((CALLERS, 16), np.float32)]
    with service.client() as client:
        assert ended(client, client.post("/trace", json=SUBMISSION))["verdict"] == "verified"
        assert tracehouse.Client(service.address).models.set_bitwise("bitwise").bitwise

        alone = [ask(client, row) for row in rows]

        assert ask_at_once(service, rows) == [{answer} for answer in alone]
        found = trials(client)
        assert [one["inputs"][0]["shape"] for one in found] == [[1, 16]]
        assert bool(found[0]["rows"]) is (found[0]["level"] == "bitwise")
        service.terminate()
    service.start()
    with service.client() as client:
        assert trials(client) == found
        assert [ask(client, row) for row in rows] == alone
