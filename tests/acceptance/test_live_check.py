"""A service that compares all answers with the model in Python: right ones are equal, and a wrong one is found.

The wrong one is of a version that the check has rejected, and that its submitter has served all the same.
"""

from typing import Any

import httpx

from tests.acceptance.conftest import StartService, ended, version_when

CLIPS = """
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        return x / x.norm() if x.norm() > 1 else x
"""
SUBMISSION = {
    "model": "clips",
    "source": {"files": {"net.py": CLIPS}, "entrypoint": "net:Net"},
    "example_inputs": [{"datatype": "FP32", "shape": [2], "data": [0.5, 0.25]}],
    "check": {"budget": "quick"},
    "accept_unsound": True,
}


def checked(client: httpx.Client, count: int) -> dict[str, Any]:
    """What the model's page says, once so many answers were checked."""

    def is_checked(version: dict[str, Any]) -> bool:
        found = version["live_check"]
        return bool(found) and found["equal"] + found["different"] + found["could_not_run"] >= count

    return dict(version_when(client, "clips", is_checked)["live_check"])


def test_the_models_page_says_that_an_answer_was_not_the_models(start_service: StartService) -> None:
    service = start_service(LIVE_CHECK_SHARE="1")
    with service.client() as client:
        assert ended(client, client.post("/trace", json=SUBMISSION))["verdict"] == "rejected"

        for x in ([0.5, 0.25], [3.0, 4.0]):
            answer = client.post("/infer/clips", json={"args": [x]})
            assert answer.json()["outputs"][0]["data"] == x

        found = checked(client, 2)
        assert (found["equal"], found["different"], found["could_not_run"]) == (1, 1, 0), found
        assert len(found["counterexamples"]) == 1
        assert client.get("/models/clips/versions/1/counterexamples/0.npz").content.startswith(b"PK")
        service.terminate()
    service.start()
    with service.client() as client:
        assert checked(client, 2) == found
