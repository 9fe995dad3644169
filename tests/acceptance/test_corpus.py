"""An endpoint answers no model of the corpus wrongly: to each of its inputs it gives eager's answer, or a refusal.

What is rejected is not served; all else is asked everything that its file has, in a row and then once more.
"""

import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch

from tests.acceptance.conftest import Service
from tests.corpus import specimen
from tests.corpus.specimen import Specimen, called, leaves, question, specimens
from tracehouse.tensors.tensor import Datatype
from tracehouse.torch_values.tensors import DTYPES

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings(r"ignore:`torch\.jit\.")]
CASES = [*specimens("wrong"), *specimens("right")]
# Far longer than the whole corpus takes; a trace that is not done by then fails its test.
TRACED_S = 1500
NUMBERS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    running = Service(tmp_path_factory.mktemp("service") / "state", RUNNER_THREADS="1", TRACE_SLOTS="2")
    yield running
    running.close()


@pytest.fixture(scope="module")
def requests(client: httpx.Client) -> dict[Path, str]:
    """Where each trace request is: all are submitted before the first is waited for."""
    check = {"check_trace": False, "budget_s": 1.0}
    replies = {
        case.path: client.post("/trace", json=case.submission(model=model_of(case), check=check)) for case in CASES
    }
    return {path: reply.raise_for_status().json()["links"]["self"] for path, reply in replies.items()}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.path.parent.name}-{case.name}")
def test_an_endpoint_answers_as_eager_or_refuses(
    client: httpx.Client, requests: dict[Path, str], case: Specimen
) -> None:
    traced = ended(client, requests[case.path])
    assert traced["state"] == "succeeded", traced["problem"]
    if traced["verdict"] == "rejected":
        assert client.post(f"/infer/{model_of(case)}", json=question(case.example)).status_code == 404
        return
    eager = case.fresh()
    for call in [case.example, *case.others] * 2:
        answer = client.post(f"/infer/{model_of(case)}", json=question(call))
        expected = in_the_service(eager, call)
        if 400 <= answer.status_code < 500:
            continue
        assert answer.status_code == 200, answer.text
        assert not isinstance(expected, Exception), "it answers where eager raises"
        assert specimen.same((list(leaves(expected[0])), None), (tensors(answer.json()), None)), answer.text


@pytest.mark.parametrize("case", specimens("right"), ids=lambda case: case.name)
def test_a_right_model_is_served_on_its_example(
    client: httpx.Client, requests: dict[Path, str], case: Specimen
) -> None:
    assert ended(client, requests[case.path])["verdict"] == "verified"
    assert client.post(f"/infer/{model_of(case)}", json=question(case.example)).status_code == 200


def model_of(case: Specimen) -> str:
    return f"{case.path.parent.name}-{case.name.replace('_', '-')}"


def in_the_service(eager: torch.nn.Module, call: specimen.Call) -> specimen.Given:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given = called(eager, call)
    torch.set_num_threads(threads)
    return given


def ended(client: httpx.Client, address: str) -> dict[str, Any]:
    until = time.monotonic() + TRACED_S
    while (request := client.get(address).raise_for_status().json())["state"] in ("queued", "running"):
        assert time.monotonic() < until, request
        time.sleep(0.2)
    answer: dict[str, Any] = request
    return answer


def tensors(reply: dict[str, Any]) -> list[torch.Tensor]:
    return [tensor(output) for output in reply["outputs"]]


def tensor(output: dict[str, Any]) -> torch.Tensor:
    dtype = DTYPES[Datatype(output["datatype"])]
    data = [NUMBERS.get(value, value) if isinstance(value, str) else value for value in output["data"]]
    return torch.tensor(data, dtype=dtype).reshape(output["shape"])
