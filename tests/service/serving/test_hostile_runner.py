"""A runner that says what it likes: archives run inside it, and it may be theirs."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from service.sandbox.tiers import Tier
from service.sandbox.zygote import Zygote
from service.serving.pool import Pool
from service.storage.blobs import Blobs
from tracehouse.contract.contract import Contract
from tracehouse.errors import GraphRaised, RunnerLost
from tracehouse.tensors.tensor import Datatype, Tensor

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

X = Tensor("x", Datatype.FP32, (2,), bytes(8))


@pytest.fixture(scope="module")
def hostile(tier: Tier) -> Iterator[Zygote]:
    with Zygote(["workers.programs.runner"], tier=tier, path=[Path(__file__).parent / "hostile"]) as zygote:
        yield zygote


@pytest.fixture
def answer(new_pool: Callable[..., Pool], hostile: Zygote, trace, blobs: Blobs):
    pool = new_pool(hostile)
    artifact = trace(blobs, torch.nn.ReLU(), torch.zeros(2))

    async def answer(lie: str) -> None:
        methods = {lie: artifact.contract.method("forward")}
        lying = artifact.model_copy(update={"contract": Contract(methods=methods)})
        try:
            await pool.infer("ours", lying, lying.digest, lie, [X], seed=0)
        finally:
            assert all(runner.state == "ready" for runner in pool.runners.values())

    return answer


@pytest.mark.parametrize(
    "lie",
    [
        "answers_unasked",
        "answers_several",
        "is_ready_again",
        "no_json",
        "no_object",
        "nests_deeply",
        "declares_too_much",
        "header_without_end",
        "unknown_kind",
        "too_few_bytes",
        "too_many_bytes",
        "another_name",
        "another_datatype",
        "one_more",
        "none",
        "no_outputs",
        "one_member_more",
        "an_object_for_an_output",
        "one_item_more",
        "immense_shape",
        "too_many_dims",
        "an_immense_dim",
        "negative_shape",
        "negative_dims",
        "true_for_a_dim",
        "a_fraction_for_a_dim",
        "a_text_for_a_shape",
        "too_long_a_failure",
        "closes",
    ],
)
async def test_an_answer_to_another_question_costs_the_runner(answer, lie: str) -> None:
    with pytest.raises(RunnerLost) as lost:
        await answer(lie)
    assert lost.value.facts["held_back"]


@pytest.mark.parametrize("lie", ["facts_that_clash", "no_such_slug"])
async def test_a_failure_is_the_models_whatever_it_calls_itself(answer, lie: str) -> None:
    with pytest.raises(GraphRaised) as raised:
        await answer(lie)
    assert raised.value.facts == {"method": lie}
