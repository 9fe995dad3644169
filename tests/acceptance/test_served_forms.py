"""A service that races forms: a form that answers otherwise never answers, and the model's page says why."""

from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import httpx
import pytest

from tests.acceptance.conftest import StartService, ended, version_when

# oneDNN's rectifier makes 0 of what is not a number, and torch's leaves it. The sum of a picture may be 0.
CONVOLVES = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Conv2d(3, 4, 3)

    def forward(self, image):
        return torch.relu(self.layer(image / image.sum()))
"""
SUBMISSION = {
    "model": "convolves",
    "source": {"files": {"net.py": CONVOLVES}, "entrypoint": "net:Net"},
    "example_inputs": [{"datatype": "FP32", "shape": [1, 3, 8, 8], "random": {"seed": 0}}],
    "check": {"budget": "quick"},
}
NOT_NUMBERS = {"inputs": [{"name": "image", "datatype": "FP32", "shape": [1, 3, 8, 8], "data": ["NaN"] * 192}]}


# All of its operators are among those that ONNX Runtime is known to compute as torch does.
RECTIFIES = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(3, 16, 3), torch.nn.BatchNorm2d(16), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1)
        )

    def forward(self, image):
        return self.layers(image).flatten(1)
"""


def raced(client: httpx.Client, name: str = "convolves") -> dict[str, Any]:
    """What the model's page says of its forms, once they were raced."""
    [found] = version_when(client, name, lambda version: version["forms"])["forms"].values()
    return dict(found)


def test_the_models_page_says_which_form_answers_and_why_others_do_not(start_service: StartService) -> None:
    service = start_service(SERVED_FORMS="raced")
    with service.client() as client:
        assert ended(client, client.post("/trace", json=SUBMISSION))["verdict"] == "verified"
        assert client.get("/models/convolves").json()["versions"][0]["forms"] == {}
        before = client.post("/infer/convolves", json=NOT_NUMBERS).json()["outputs"]

        found = raced(client)

        out = {one["form"]: one["out"] for one in found["trials"]}
        assert out["freeze"] is None
        for form in ("optimize_for_inference", "onednn_fusion"):
            assert "gives NaN" in out[form]
            assert "this form 0.0" in out[form]
        assert "which may make what is not a number" in out["onnxruntime"] or "not installed" in out["onnxruntime"]
        assert found["answers"] in (None, "freeze")
        assert client.post("/infer/convolves", json=NOT_NUMBERS).json()["outputs"] == before
        service.terminate()
    service.start()
    with service.client() as client:
        assert raced(client) == found
        assert client.post("/infer/convolves", json=NOT_NUMBERS).json()["outputs"] == before


def test_the_models_page_says_how_fast_another_runtime_was(start_service: StartService) -> None:
    if find_spec("onnxruntime") is None:
        pytest.skip("onnxruntime is not installed")
    source = {"files": {"net.py": RECTIFIES}, "entrypoint": "net:Net"}
    service = start_service(SERVED_FORMS="raced")
    with service.client() as client:
        submission = SUBMISSION | {"model": "rectifies", "source": source}
        assert ended(client, client.post("/trace", json=submission))["verdict"] == "verified"
        before = client.post("/infer/rectifies", json=NOT_NUMBERS).json()["outputs"]

        found = raced(client, "rectifies")

        [trial] = [one for one in found["trials"] if one["form"] == "onnxruntime"]
        assert trial["out"] is None
        assert trial["calls"] > 100
        assert trial["speedup"] > 0
        assert found["packages"]["onnxruntime"] == version("onnxruntime")
        assert client.post("/infer/rectifies", json=NOT_NUMBERS).json()["outputs"] == before
