"""The corpus through a real service: its endpoints answer no model wrongly, and its check is as good as it was.

To each of its inputs an endpoint gives eager's answer, or a refusal. What is rejected is not served; all else is asked
everything that its file has, in a row and then once more. The figures are those of benchmarks/check_quality.py.
"""

import json
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch

from benchmarks import check_quality
from benchmarks.check_quality import Ours
from benchmarks.trace_requests import Done
from tests.acceptance.conftest import Service
from tests.corpus import specimen
from tests.corpus.specimen import Specimen, called, constants, leaves, question, specimens
from tracehouse.artifact.manifest import Artifact
from tracehouse.errors import Failure
from tracehouse.tensors.tensor import Datatype
from tracehouse.torch_values.tensors import DTYPES

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings(r"ignore:`torch\.jit\.")]
CASES = [*specimens("wrong"), *specimens("right")]
# Far longer than the whole corpus takes; a trace that is not done by then fails its test.
TRACED_S = 1500
KEPT = json.loads((specimen.CORPUS / "figures.json").read_text())
# At the larger budget, what is found does not hang on how fast the machine is. It is given only to what came to no good
# end without it, for no model that is judged well can raise the figures.
DEFAULT_S, JUDGED_S = check_quality.BUDGETS_S
NUMBERS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    running = Service(tmp_path_factory.mktemp("service") / "state", RUNNER_THREADS="1", TRACE_SLOTS="2")
    yield running
    running.close()


@pytest.fixture(scope="module")
def requests(client: httpx.Client) -> dict[Path, str]:
    """Where each trace request is: all are submitted before the first is waited for."""
    return {case.path: submit(client, case, DEFAULT_S) for case in CASES}


@pytest.fixture(scope="module")
def judged_by_default(client: httpx.Client, requests: dict[Path, str]) -> dict[str, Ours]:
    return judge(client, {case: requests[case.path] for case in CASES})


@pytest.fixture(scope="module")
def requests_with_more_time(client: httpx.Client, judged_by_default: dict[str, Ours]) -> dict[Path, str]:
    """Where the further trace requests are of the models that may have come to no good end for lack of time."""
    short = [
        case
        for case in CASES
        if not is_good(ours := judged_by_default[case.name]) and check_quality.was_short_of_time(ours, DEFAULT_S)
    ]
    return {case.path: submit(client, case, JUDGED_S) for case in short}


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
        asked = question(call) | {"parameters": {"seed": specimen.SEED}}
        answer = client.post(f"/infer/{model_of(case)}", json=asked)
        expected = in_the_service(eager, call)
        if 400 <= answer.status_code < 500:
            continue
        assert answer.status_code == 200, answer.text
        assert not isinstance(expected, Exception), "it answers where eager raises"
        reply = answer.json()
        eager_tensors = [torch.view_as_real(one) if one.is_complex() else one for one in leaves(expected[0])]
        assert specimen.same((eager_tensors, None), (tensors(reply), None)), answer.text
        assert [*constants(expected[0])] == [*constants(baked(reply.get("returns")))], answer.text


@pytest.mark.parametrize("case", specimens("right"), ids=lambda case: case.name)
def test_a_right_model_is_served_on_its_example(
    client: httpx.Client, requests: dict[Path, str], requests_with_more_time: dict[Path, str], case: Specimen
) -> None:
    assert ended(client, (requests | requests_with_more_time)[case.path])["verdict"] == "verified"
    assert client.post(f"/infer/{model_of(case)}", json=question(case.example)).status_code == 200


def test_the_check_is_as_good_as_it_was(
    client: httpx.Client, judged_by_default: dict[str, Ours], requests_with_more_time: dict[Path, str]
) -> None:
    again = {case: requests_with_more_time[case.path] for case in CASES if case.path in requests_with_more_time}
    judged = judged_by_default | judge(client, again)
    for budget_s, ours in ((DEFAULT_S, judged_by_default), (JUDGED_S, judged)):
        print(f"{budget_s:g} s:", check_quality.summarise(CASES, ours, {}))

    now, kept = check_quality.summarise(CASES, judged, {}), KEPT[f"{JUDGED_S:g} s"]
    not_good = {name: one for name, one in judged.items() if not is_good(one)}
    wrong_lines = [name for name, one in judged.items() if one.outcome == "found" and one.line is False]
    assert now["found"] >= kept["found"], not_good
    assert now["lines_right"] >= kept["lines_right"], wrong_lines
    assert now["false_alarms"] <= kept["false_alarms"], not_good
    assert now["closed_though_right"] <= kept["closed_though_right"], not_good


def is_good(ours: Ours) -> bool:
    return ours.outcome in ("found", "right") and ours.line is not False


def submit(client: httpx.Client, case: Specimen, budget_s: float) -> str:
    reply = client.post("/trace", json=case.submission(model=model_of(case), check={"budget_s": budget_s}))
    return str(reply.raise_for_status().json()["links"]["self"])


def judge(client: httpx.Client, requests: Mapping[Specimen, str]) -> dict[str, Ours]:
    done = {case: done_by(client, ended(client, address)) for case, address in requests.items()}
    with as_in_the_service():
        return {case.name: check_quality.judge(case, one) for case, one in done.items()}


def done_by(client: httpx.Client, request: dict[str, Any]) -> Done:
    if request["problem"]:
        return Done(Failure(slug=request["problem"]["code"], detail=request["problem"]["detail"]), None, b"", 0.0)
    [made] = request["artifacts"]
    address = f"/artifacts/{made['digest']}"
    manifest = client.get(address).raise_for_status().json()
    artifact = Artifact.model_validate({name: manifest[name] for name in Artifact.model_fields})
    return Done(None, artifact, client.get(f"{address}/archive").raise_for_status().content, 0.0)


def model_of(case: Specimen) -> str:
    return f"{case.path.parent.name}-{case.name.replace('_', '-')}"


def in_the_service(eager: torch.nn.Module, call: specimen.Call) -> specimen.Given:
    with as_in_the_service():
        return called(eager, call)


@contextmanager
def as_in_the_service() -> Iterator[None]:
    """Compute with one thread, and warn of nothing."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    torch.set_num_threads(threads)


def ended(client: httpx.Client, address: str) -> dict[str, Any]:
    until = time.monotonic() + TRACED_S
    while (request := client.get(address).raise_for_status().json())["state"] in ("queued", "running"):
        assert time.monotonic() < until, request
        time.sleep(1)  # each look takes from the traces that are waited for
    answer: dict[str, Any] = request
    return answer


def baked(returns: Any) -> list[Any]:
    """The constants in `returns`, left to right."""
    match returns:
        case {"baked": constant}:
            return [constant]
        case {"mapping": items}:
            return [baked(item) for item in items.values()]
        case {"tuple": items} | {"list": items}:
            return [baked(item) for item in items]
    return []


def tensors(reply: dict[str, Any]) -> list[torch.Tensor]:
    return [tensor(output) for output in reply["outputs"]]


def tensor(output: dict[str, Any]) -> torch.Tensor:
    dtype = DTYPES[Datatype(output["datatype"])]
    data = [NUMBERS.get(value, value) if isinstance(value, str) else value for value in output["data"]]
    return torch.tensor(data, dtype=dtype).reshape(output["shape"])
