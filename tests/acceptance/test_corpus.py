"""The corpus through a real service: its endpoints answer no model wrongly, and its check is as good as in process.

To each of its inputs an endpoint gives eager's answer, or a refusal. What is rejected is not served; all else is asked
everything that its file has, in a row and then once more.

How good the check is on every model of the corpus, tests/corpus asks in process. Here are as few of them as have
everything that the way to and from a service could change: `properties` says what that is.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import httpx
import pytest
import torch

from benchmarks import check_quality
from benchmarks.check_quality import Ours
from benchmarks.trace_requests import Done
from tests.acceptance.conftest import Service
from tests.corpus import specimen
from tests.corpus.specimen import (
    NOT_GOOD,
    Specimen,
    as_in_the_service,
    called,
    constants,
    leaves,
    question,
    specimens,
)
from tracehouse.artifact.manifest import Artifact
from tracehouse.errors import Failure
from tracehouse.findings.trace_check import Layer
from tracehouse.findings.verdict import Verdict
from tracehouse.tensors.tensor import Datatype
from tracehouse.torch_values.tensors import DTYPES

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings(r"ignore:`torch\.jit\.")]
# Far longer than all of them take; a trace that is not done by then fails its test.
TRACED_S = 1500
NUMBERS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


# What `choose` returns. It calls all models, and some of them write files that others would read: no process does so
# while it collects tests.
CHOSEN = {
    "right-atrous_pyramid",
    "right-bert_like",
    "right-boolean_logic",
    "right-ctc_speech",
    "right-decoder_step_of_stacked_caches",
    "right-half_precision_inputs",
    "right-labels_beside_logits",
    "right-list_of_feature_maps",
    "right-nested_inputs_and_outputs",
    "right-scalars_as_tensors",
    "right-spectrum_in_complex_numbers",
    "wrong-a_text_that_no_table_has",
    "wrong-alternates_over_heads",
    "wrong-as_many_features_as_given",
    "wrong-bytes_of_its_storage",
    "wrong-cache_step_that_mends_its_mask",
    "wrong-crops_anywhere",
    "wrong-flag_in_a_nested_dict",
    "wrong-keyword_mask_length",
    "wrong-pyramid_of_given_levels",
    "wrong-returns_how_many_rows",
    "wrong-returns_its_best_label",
    "wrong-times_its_own_layer",
    "wrong-writes_a_view_at_a_read_place",
}


def choose(by_case: dict[str, set[str]]) -> set[str]:
    """Return the first that has most of what none before it has, again and again until everything is there."""
    left, chosen = set().union(*by_case.values()), []
    while left:
        chosen.append(max(by_case, key=lambda case: len(by_case[case] & left)))
        left -= by_case[chosen[-1]]
    return set(chosen)


def properties(case: Specimen) -> set[str]:
    """What a submission, a verdict, a question or a reply has to carry of it."""
    args, kwargs = case.example
    given = {f"takes {form}" for value in (*args, *kwargs.values()) for form in forms(value)}
    if kwargs:
        given.add("takes keywords")
    returned = called(case.fresh(), case.example)
    assert not isinstance(returned, Exception), returned
    given |= {f"returns {form}" for form in forms(returned[0])}
    side = case.path.parent.name
    return {f"{side}: {one}" for one in given} | {case.kind if side == "wrong" else side}


def forms(value: Any) -> Iterator[str]:
    """Yield of what kinds it is made of."""
    match value:
        case torch.Tensor():
            yield from (str(value.dtype), f"rank {value.dim()}")
        case dict():
            for item in value.values():
                yield from ("a dict", *forms(item))
        case list() | tuple():
            for item in value:
                yield from (f"a {type(value).__name__}", *forms(item))
        case _:
            yield type(value).__name__


# At the larger budget, what is found does not hang on how fast the machine is. It is given only to what came to no good
# end without it.
DEFAULT_S, JUDGED_S = check_quality.BUDGETS_S


def name_of(case: Specimen) -> str:
    return f"{case.path.parent.name}-{case.name}"


ALL = [case for side in ("wrong", "right") for case in specimens(side) if case.name not in NOT_GOOD]
CASES = [case for case in ALL if name_of(case) in CHOSEN]


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
def done(client: httpx.Client, requests: dict[Path, str]) -> dict[Path, Done]:
    """What came of each."""
    return {path: done_by(client, ended(client, address)) for path, address in requests.items()}


def test_the_chosen_models_have_everything_that_any_model_has() -> None:
    with as_in_the_service():
        by_case = {name_of(case): properties(case) for case in ALL}

    lacking = set().union(*by_case.values()).difference(*(by_case[name] for name in CHOSEN))
    assert not lacking, f"choose these: {choose(by_case)}"


@pytest.mark.parametrize("case", CASES, ids=name_of)
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


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_it_is_judged_as_in_process(client: httpx.Client, done: dict[Path, Done], case: Specimen) -> None:
    ours = judge(case, done[case.path])
    if not check_quality.is_good(ours) and check_quality.was_short_of_time(ours, DEFAULT_S):
        ours = judge(case, done_by(client, ended(client, submit(client, case, JUDGED_S))))
    assert check_quality.is_good(ours), ours
    if case.path.parent.name == "right":
        assert client.post(f"/infer/{model_of(case)}", json=question(case.example)).status_code == 200


def test_each_verdict_and_each_layer_comes_over_http(done: dict[Path, Done]) -> None:
    checks = [one.artifact.check for one in done.values() if one.artifact is not None]

    assert {check.verdict for check in checks} == {Verdict.VERIFIED, Verdict.RESTRICTED, Verdict.REJECTED}
    assert {layer.name for check in checks for layer in check.layers} == {
        *get_args(Layer.model_fields["name"].annotation)
    }


def submit(client: httpx.Client, case: Specimen, budget_s: float) -> str:
    reply = client.post("/trace", json=case.submission(model=model_of(case), check={"budget_s": budget_s}))
    return str(reply.raise_for_status().json()["links"]["self"])


def judge(case: Specimen, done: Done) -> Ours:
    with as_in_the_service():
        return check_quality.judge(case, done)


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
