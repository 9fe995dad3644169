"""Proven rows: a proof shows for all numbers of rows at once which operators keep them apart, and which may not."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.tracehouse.check.targets import make_target
from tracehouse.check.batch import certificate
from tracehouse.check.batch.certificate import NotBatchable, certify
from tracehouse.check.batch.proven_rows import find_proven_rows
from tracehouse.check.batch.row_step import Mixes
from tracehouse.check.prove.proven_runs import ProvenRun
from tracehouse.check.prove.prover import Proof, prove
from tracehouse.check.size_groups import Groups
from tracehouse.check.target import Target
from tracehouse.contract.contract import Batch
from tracehouse.differential.budget import Budget

BUDGET_S = 120
ROWS_MAX = 32
WITNESS_ROWS = 5  # so many rows are asked together where a proof shows the rest
GROUPS = Groups({"x": ("batch", 4, 6)}, {"batch": 2}, {})
SIZES = {"batch": range(1, 65)}
Does = Callable[["Model", torch.Tensor], Any]


class Model(nn.Module):
    """A model whose forward calls `does`. Its input has rows of 4 steps with 6 numbers each."""

    def __init__(self, does: Does) -> None:
        super().__init__()
        self.table = nn.Embedding(100, 4)
        self.linear = nn.Linear(6, 6)
        self.convolution = nn.Conv1d(4, 5, 3)
        self.transposed = nn.ConvTranspose1d(4, 5, 3)
        self.lstm = nn.LSTM(6, 5, 2, batch_first=True, bidirectional=True)
        self.gru = nn.GRU(6, 5)
        self.attention = nn.MultiheadAttention(6, 2, batch_first=True)
        self.encoder = nn.TransformerEncoderLayer(6, 2, 12, batch_first=True)
        self.layer_norm, self.group_norm = nn.LayerNorm(6), nn.GroupNorm(2, 4)
        self.batch_norm, self.instance_norm = nn.BatchNorm1d(4), nn.InstanceNorm1d(4)
        self.token = nn.Parameter(torch.randn(1, 1, 6))
        self.register_buffer("bits", torch.ones(4, 6, dtype=torch.bool))
        self.does = does

    def forward(self, x: torch.Tensor) -> Any:
        return self.does(self, x)


def prove_model(does: Does, wanted: range = SIZES["batch"]) -> tuple[Target, Proof]:
    torch.manual_seed(0)
    target = make_target(Model(does), torch.randn(2, 4, 6))
    return target, prove(target, GROUPS, {"batch": wanted}, Budget(BUDGET_S))


def find_rows(does: Does) -> dict[str, int]:
    """Return the dims of the outputs that have rows. Raises Mixes if the proof does not show that they stay apart."""
    _, proof = prove_model(does)
    assert proof.runs is not None
    return dict(find_proven_rows(proof.runs, {"batch": 2}, "batch", {"x": 0}, ROWS_MAX).outputs)


def fills_where_negative(model: Model, x: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[:, 1] += 1
    x.view(-1).mul_(2)
    return x.masked_fill_(x < 0, 0)


def writes_into_zeros(model: Model, x: torch.Tensor) -> torch.Tensor:
    padded = x.new_zeros(x.shape[0], x.shape[1] + 2, 6)
    padded[:, 1:-1] = x
    return padded


def folds_heads(model: Model, x: torch.Tensor) -> torch.Tensor:
    heads = x.view(x.shape[0], 4, 2, 3).transpose(1, 2).reshape(-1, 4, 3)
    return (heads @ heads.transpose(1, 2)).softmax(-1).view(x.shape[0], 2, 4, 4)


def encodes_two_together(model: Model, x: torch.Tensor) -> torch.Tensor:
    one, other = model.linear(torch.cat([x, x.flip(1)], 0)).chunk(2, 0)
    return one * other


def images(x: torch.Tensor) -> torch.Tensor:
    return x[:, None]


APART: dict[str, Does] = {
    "elementwise": lambda model, x: functional.gelu(x).relu() * x.sigmoid() + model.token,
    "comparison": lambda model, x: torch.where(x > 0, x, -x).masked_fill(~model.bits, 1.0),
    "linear": lambda model, x: model.linear(x),
    "flattened": lambda model, x: model.linear(x.reshape(-1, 6)).view(x.shape[0], 4, 6).flatten(1),
    "addmm": lambda model, x: torch.addmm(model.linear.bias, x.flatten(0, 1), model.linear.weight).unflatten(
        0, (-1, 4)
    ),
    "bmm": lambda model, x: torch.bmm(x, x.transpose(1, 2)),
    "matmul": lambda model, x: x @ model.linear.weight,
    "einsum": lambda model, x: torch.einsum("btc,bsc->bts", x, x),
    "convolution": lambda model, x: model.convolution(x),
    "transposed convolution": lambda model, x: model.transposed(x),
    "layer norm": lambda model, x: model.layer_norm(x),
    "group norm": lambda model, x: model.group_norm(x),
    "batch norm in eval mode": lambda model, x: model.batch_norm(x),
    "instance norm": lambda model, x: model.instance_norm(x),
    "softmax": lambda model, x: x.softmax(-1) + x.log_softmax(1),
    "reductions": lambda model, x: (x.sum((1, 2)), x.mean(1), x.amax(-1, keepdim=True), x.argmax(2), x.std(1)),
    "scans": lambda model, x: x.sort(1).values.cumsum(-1).topk(2, 1).values,
    "flip and roll": lambda model, x: x.flip(1).roll(1, 2),
    "views": lambda model, x: x.transpose(1, 2).unsqueeze(1).squeeze(1).permute(0, 2, 1).contiguous()[:, 1:, ::2],
    "rows in another dim": lambda model, x: x.permute(2, 0, 1),
    "expand and repeat": lambda model, x: torch.cat([model.token.expand(x.shape[0], -1, -1), x.repeat(1, 2, 1)], 1),
    "select and stack": lambda model, x: torch.stack([x[:, 0], x.select(1, 1)], 1),
    "split and unbind": lambda model, x: (*x.split(2, 1), *x.unbind(2)),
    "look-up on another dim": lambda model, x: x.index_select(1, torch.tensor([2, 0])) + x[:, [1, 3]],
    "embedding": lambda model, x: model.table(x.abs().mul(10).long().clamp(0, 99)),
    "gather": lambda model, x: x.gather(1, x.argsort(1)),
    "one hot": lambda model, x: functional.one_hot(x.argmax(-1), 6),
    "attention": lambda model, x: functional.scaled_dot_product_attention(x, x, x, is_causal=True),
    "multi-head attention": lambda model, x: model.attention(x, x, x)[0],
    "encoder": lambda model, x: model.encoder(x),
    "pooling": lambda model, x: functional.max_pool1d(x, 2) + functional.avg_pool1d(x, 2),
    "pooling of images": lambda model, x: functional.max_pool2d(functional.adaptive_avg_pool2d(images(x), 4), 2),
    "interpolation": lambda model, x: functional.interpolate(images(x), scale_factor=2.0, mode="bilinear"),
    "padding": lambda model, x: functional.pad(x, (1, 2, 0, 3)),
    "lstm": lambda model, x: model.lstm(x)[0],
    "gru": lambda model, x: model.gru(x.transpose(0, 1))[1][-1],
    "writes": fills_where_negative,
    "writes into zeros": writes_into_zeros,
    "folded heads": folds_heads,
    "two together": encodes_two_together,
}


@pytest.mark.parametrize("name", APART)
def test_a_proof_shows_that_rows_stay_apart(name: str) -> None:
    assert find_rows(APART[name])


def test_the_rows_of_an_output_are_in_the_dim_that_is_named() -> None:
    assert find_rows(lambda model, x: (x.permute(2, 0, 1), x.sum(1))) == {"output.0": 1, "output.1": 0}


def writes_the_first_row(model: Model, x: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[0] = x[0].clamp(-1e30, 1e30)
    return x


def writes_rows_behind_one_another(model: Model, x: torch.Tensor) -> torch.Tensor:
    shifted = x.new_zeros(x.shape[0] + 1, 4, 6)
    shifted[1:] = x
    return shifted[:-1]


def looks_up_other_rows(model: Model, x: torch.Tensor) -> torch.Tensor:
    return x + 0 * x[(x[:, 0, 0] > 1e30).long()]


def suppresses_duplicates(model: Model, x: torch.Tensor) -> torch.Tensor:
    flat = x.flatten(1)
    return flat * ~(torch.cdist(flat, flat) < 1e-30).tril(-1).any(1, keepdim=True)


def interleaves_rows(model: Model, x: torch.Tensor) -> torch.Tensor:
    """Each row of the result has the first step of several rows, where there are several."""
    return x.transpose(0, 1).reshape(x.shape[0], 4, 6)


def has_rows_for_channels(model: Model, x: torch.Tensor) -> torch.Tensor:
    return functional.layer_norm(x.transpose(0, 2), [4, x.shape[0]]).transpose(0, 2)


def runs_rows_as_steps(model: Model, x: torch.Tensor) -> torch.Tensor:
    outputs: torch.Tensor = model.gru(x)[0]
    return outputs


MEETING: dict[str, Does] = {
    "softmax": lambda model, x: x.softmax(0),
    "batch norm in train mode": lambda model, x: functional.batch_norm(x, None, None, training=True),
    "layer norm": has_rows_for_channels,
    "cumulative sum": lambda model, x: x.cumsum(0),
    "sort": lambda model, x: x.sort(0).values,
    "flip": lambda model, x: x.flip(0),
    "roll": lambda model, x: x.roll(1, 0),
    "mean of all": lambda model, x: x - x.mean(),
    "mean of rows": lambda model, x: x - x.mean(0),
    "maximum of merged rows": lambda model, x: x + (x.flatten(0, 1).amax(0) > 1e30),
    "reshape": interleaves_rows,
    "product of rows": lambda model, x: x.flatten(1) @ x.flatten(1).T @ x.flatten(1),
    "sum of products": lambda model, x: x + torch.einsum("btc,dtc->bd", x, x).sum(1)[:, None, None],
    "distances": suppresses_duplicates,
    "look-up by values": looks_up_other_rows,
    "table of rows": lambda model, x: functional.embedding(x[..., 0].argmax(1) % 2, x.flatten(1)),
    "gather": lambda model, x: x.gather(0, x.argmax(0, keepdim=True).expand(x.shape[0], -1, -1)),
    "first row": lambda model, x: x - (x[:1] > 1e30) * x[:1],
    "each with each": lambda model, x: (x.sum((1, 2)) + x.sum((1, 2))[:, None]).amin(1),
    "rows beside others": lambda model, x: torch.cat([x[1:], x[:1]]) + x,
    "places of rows": lambda model, x: x + (torch.arange(x.shape[0])[:, None, None] > 1000),
    "number of rows, added": lambda model, x: x + x.shape[0],
    "number of rows, in steps": lambda model, x: x * (x.shape[0] // 16 + 1.5),
    "number of rows": lambda model, x: x * (1 + 1e-4 * x.shape[0]),
    "attention over rows": lambda model, x: functional.scaled_dot_product_attention(*[x.transpose(0, 1)] * 3),
    "pooling over rows": lambda model, x: functional.max_pool1d(x.transpose(0, 2), 3, 1, 1).transpose(0, 2),
    "recurrence over rows": runs_rows_as_steps,
    "weights from rows": lambda model, x: functional.linear(x, x.mean(0).expand(6, 4, 6)[:, 0]),
    "kernel from rows": lambda model, x: functional.conv1d(x, x[:1, :, :3].expand(4, -1, -1)),
    "writes the first row": writes_the_first_row,
    "writes behind one another": writes_rows_behind_one_another,
    "random numbers": lambda model, x: x + torch.rand_like(x),
    "random numbers that all rows share": lambda model, x: x + torch.rand(4, 6),
    "output without rows": lambda model, x: (x, x.sum()),
    "two rows for each": lambda model, x: x.repeat(2, 1, 1),
}


@pytest.mark.parametrize("name", MEETING)
def test_a_proof_does_not_show_that_rows_stay_apart_which_may_meet(name: str) -> None:
    with pytest.raises(Mixes):
        find_rows(MEETING[name])


def test_a_size_that_grows_in_steps_is_no_multiple_of_the_number_of_rows() -> None:
    """Calls of few rows, and their operators, show nothing of it: 3 and 5 rows read the same step."""

    def reads_a_later_step(model: Model, x: torch.Tensor) -> torch.Tensor:
        return x.narrow(1, x.shape[0] // 16, 1)

    target, proof = prove_model(reads_a_later_step)

    assert any(region.contains({"batch": 16}) for region in proof.regions)
    assert proof.runs is not None
    with pytest.raises(Mixes, match="grows otherwise"):
        find_proven_rows(proof.runs, {"batch": 2}, "batch", {"x": 0}, ROWS_MAX)
    certified = certify(target, GROUPS, ROWS_MAX, Budget(BUDGET_S), runs=proof.runs)
    assert isinstance(certified, Batch)
    assert certified.up_to == 7


def count_calls(monkeypatch: pytest.MonkeyPatch, target: Target, proof: Proof, **options: Any) -> tuple[Any, list[int]]:
    """Return what is certified with the proof, and how many rows each call of the artifact had."""
    rows: list[int] = []
    ask = certificate.call_artifact

    def ask_and_note(artifact: Any, call: Any, seed: int) -> Any:
        rows.append(call.tensors["x"].shape[0])
        return ask(artifact, call, seed)

    monkeypatch.setattr(certificate, "call_artifact", ask_and_note)
    certified = certify(target, GROUPS, ROWS_MAX, Budget(BUDGET_S), runs=proof.runs, **options)
    return certified, rows


def test_where_a_proof_shows_it_two_calls_of_the_artifact_certify_as_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    target, proof = prove_model(APART["linear"])

    certified, rows = count_calls(monkeypatch, target, proof)

    assert certified == certify(target, GROUPS, ROWS_MAX, Budget(BUDGET_S))
    assert certified == Batch(symbol="batch", up_to=ROWS_MAX, inputs={"x": 0}, outputs={"output": 0})
    assert rows[:2] == [1, WITNESS_ROWS]


def test_a_single_row_that_runs_other_operators_is_asked_alone_with_other_values_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target, proof = prove_model(APART["folded heads"])

    certified, rows = count_calls(monkeypatch, target, proof)

    assert isinstance(certified, Batch)
    assert rows == [1, 1, 1, 1, 1, 1, WITNESS_ROWS]


def test_rows_that_are_not_proven_are_certified_by_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    target, proof = prove_model(APART["linear"], range(1, 9))

    certified, rows = count_calls(monkeypatch, target, proof)

    assert isinstance(certified, Batch)
    assert certified.up_to == ROWS_MAX
    assert {2, 3, 7, ROWS_MAX} <= {*rows}


def test_rows_of_which_one_alone_is_not_proven_are_not_certified_by_the_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    def needs_two(model: Model, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] < 2:
            raise ValueError("one row alone")
        return x * 2

    target, proof = prove_model(needs_two)

    assert isinstance(count_calls(monkeypatch, target, proof)[0], NotBatchable)


@pytest.mark.parametrize("name", MEETING)
def test_rows_that_may_meet_get_no_certificate_with_a_proof_either(name: str) -> None:
    target, proof = prove_model(MEETING[name])

    assert isinstance(certify(target, GROUPS, ROWS_MAX, Budget(BUDGET_S), runs=proof.runs), NotBatchable)


@pytest.mark.parametrize("depends", [lambda x: x - x.mean(0), lambda x: x.flip(0), lambda x: x.roll(1, 0),
                                     lambda x: x + 0 * x.sum()])  # fmt: skip
def test_a_witness_that_disagrees_with_the_proof_has_the_last_word(depends: Callable[[Any], Any]) -> None:
    """Here the artifact is not the one that was proven, as if a rule or a kernel were wrong."""
    _, proof = prove_model(lambda model, x: x * 2)
    target, _ = prove_model(lambda model, x: depends(x) * 2)

    assert isinstance(certify(target, GROUPS, ROWS_MAX, Budget(BUDGET_S), runs=proof.runs), NotBatchable)


def test_a_script_that_branches_on_the_number_of_rows_is_certified_as_far_as_they_stay_apart() -> None:
    class MeansOfMany(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.shape[0] > 6:
                return x - x.mean(0)
            return x * 2

    target = make_target(MeansOfMany(), torch.randn(2, 4, 6), scripted=True)
    proof = prove(target, GROUPS, SIZES, Budget(BUDGET_S))

    certified = certify(target, GROUPS, ROWS_MAX, Budget(BUDGET_S), runs=proof.runs)

    assert isinstance(certified, Batch)
    assert certified.up_to == 6


def test_a_script_is_certified_by_its_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    target = make_target(nn.Linear(6, 3), torch.randn(2, 4, 6), scripted=True)
    groups = Groups({"input": ("batch", 4, 6)}, {"batch": 2}, {})
    proof = prove(target, groups, SIZES, Budget(BUDGET_S))
    calls: list[Any] = []
    ask = certificate.call_artifact
    monkeypatch.setattr(certificate, "call_artifact", lambda *args: calls.append(args) or ask(*args))

    certified = certify(target, groups, ROWS_MAX, Budget(BUDGET_S), runs=proof.runs)

    assert isinstance(certified, Batch)
    assert certified.up_to == ROWS_MAX
    assert len(calls) == 2


class OneRun:
    """Runs of which one stands for all sizes."""

    def __init__(self, run: ProvenRun) -> None:
        self._run = run

    def run_at(self, _: Mapping[str, int]) -> ProvenRun:
        return self._run


def test_nothing_is_shown_of_rows_that_meet_a_tensor_of_unknown_origin() -> None:
    """Here the artifact's parameters come from nowhere."""
    _, proof = prove_model(APART["linear"])
    run = proof.runs.run_at({"batch": 2}) if proof.runs is not None else None
    assert run is not None
    runs: Any = OneRun(replace(run, held={}))

    with pytest.raises(Mixes, match="comes from no operator"):
        find_proven_rows(runs, {"batch": 2}, "batch", {"x": 0}, ROWS_MAX)


def test_two_runs_that_stand_for_one_number_of_rows_each_show_nothing_of_how_sizes_grow() -> None:
    _, proof = prove_model(APART["reductions"])
    assert proof.runs is not None
    assert proof.runs.run_at({"batch": 1}) is not proof.runs.run_at({"batch": 2})

    with pytest.raises(Mixes):
        find_proven_rows(proof.runs, {"batch": 2}, "batch", {"x": 0}, 2)
