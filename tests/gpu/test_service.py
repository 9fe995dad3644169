"""A service on a machine with a GPU."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.sandbox.tiers import Tier
from tests.acceptance.conftest import Service, ended

SOURCE = """
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 8, 3)
        self.norm = torch.nn.BatchNorm2d(8)
        self.linear = torch.nn.Linear(8, 4)

    def forward(self, image):
        return self.linear(torch.relu(self.norm(self.convolution(image))).mean((2, 3)))
"""
IMAGE = {"datatype": "FP32", "shape": [2, 3, 16, 16]}


def submission(*devices: str) -> dict[str, Any]:
    return {
        "model": "net",
        "source": {"files": {"net.py": SOURCE}, "entrypoint": "net:Net"},
        "example_inputs": [IMAGE | {"random": {"seed": 0}}],
        "devices": devices,
    }


def traced(client: httpx.Client, *devices: str) -> dict[str, Any]:
    status = ended(client, client.post("/trace", json=submission(*devices)))
    assert (status["state"], status["verdict"]) == ("succeeded", "verified"), json.dumps(status, indent=1)[:4000]
    return status


def test_a_service_with_gpu_slots_answers_on_both_devices(tmp_path: Path) -> None:
    image = {"name": "image", "data": [0.25] * (2 * 3 * 16 * 16), **IMAGE}
    service = Service(tmp_path / "state", GPU_SLOTS="1", SANDBOX=Tier.NONE.value)
    with closing(service), service.client() as client:
        traced(client, "cpu", "cuda")
        replies = [
            client.post("/infer/net", params={"device": device}, json={"inputs": [image]}) for device in ("cpu", "cuda")
        ]
        of_cpu, of_cuda = (reply.json()["outputs"][0]["data"] for reply in replies)
        assert of_cuda == pytest.approx(of_cpu, rel=1e-3, abs=1e-4)


def test_a_service_without_gpu_slots_works_beside_a_gpu(tmp_path: Path) -> None:
    service = Service(tmp_path / "state")
    with closing(service), service.client() as client:
        assert traced(client, "cpu")["model"]
