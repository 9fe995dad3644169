"""Beyond the wanted sizes a proof holds where its conditions hold for all of them, and memory bounds the calls."""

from typing import Any

import pytest
import torch

import tracehouse
from tests.tracehouse.check.targets import make_target
from tracehouse.check import memory_calls
from tracehouse.check.memory_calls import measure_call, measure_memory
from tracehouse.check.prove.beyond import BEYOND_MAX
from tracehouse.check.prove.prover import Proof, prove
from tracehouse.check.size_groups import Groups
from tracehouse.check.target import Target
from tracehouse.differential.budget import Budget

EXAMPLE = {"batch": 3, "length": 8}
WANTED = {"batch": range(1, 65), "length": range(1, 257)}
BOTH = {"batch": BEYOND_MAX, "length": BEYOND_MAX}


class Elementwise(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) * 2 + x.sum(1, keepdim=True)


class LongOnesAreAnswered(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.shape[1] > 2000 else x


class LargeOnesAreAnswered(torch.nn.Module):
    """Each size alone may go on as far as the other one is small."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.shape[0] * x.shape[1] > 10**7 else x


class RoundsAScale(torch.nn.Module):
    """Python rounds twice to doubles, and a trace to floats. A root is rounded once, on some processors exactly."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * (x.shape[1] / 3 / 7)


class Attention(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.to_query = torch.nn.Linear(4, 8)
        self.to_key = torch.nn.Linear(4, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = self.to_query(x) @ self.to_key(x).transpose(1, 2)
        return torch.softmax(scores, -1) @ x


class FusedAttention(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = x.view(x.shape[0], -1, 2, 2).transpose(1, 2)
        return torch.nn.functional.scaled_dot_product_attention(heads, heads, heads)


class Convolutions(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.Sequential(torch.nn.Conv1d(4, 8, 3, stride=2), torch.nn.ReLU(), torch.nn.Conv1d(8, 8, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(torch.nn.functional.pad(x.transpose(1, 2), (8, 8)))


class Recurrent(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.GRU(4, 8, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)[0]


def target_of(module: torch.nn.Module) -> tuple[Target, Groups]:
    x = torch.randn(EXAMPLE["batch"], EXAMPLE["length"], 4, generator=torch.Generator().manual_seed(0))
    target = make_target(module, x)
    return target, Groups({"x": ("batch", "length", 4)}, EXAMPLE, {"x": {}})


def proof_of(module: torch.nn.Module, **given: Any) -> tuple[Target, Groups, Proof]:
    target, groups = target_of(module)
    return target, groups, prove(target, groups, WANTED, Budget(60), **{"reach": BOTH, **given})


def test_a_proof_without_an_upper_condition_holds_beyond_for_all_symbols_together() -> None:
    _, _, proof = proof_of(Elementwise())

    [region] = proof.regions
    assert str(region) == "batch 1 to 64, length 1 to 256"
    assert region.beyond == BOTH
    assert region.contains({"batch": 300, "length": 100_000})


def test_a_proof_holds_beyond_as_far_as_a_branch_lets_it() -> None:
    _, _, proof = proof_of(LongOnesAreAnswered())

    [region] = proof.regions
    assert region.beyond["batch"] == BEYOND_MAX
    assert 256 < region.beyond["length"] <= 2000


def test_symbols_go_on_together_only_where_that_is_proven() -> None:
    _, _, proof = proof_of(LargeOnesAreAnswered())

    for region in proof.regions:
        largest = {symbol: region.whole_spans[symbol][-1].high for symbol in EXAMPLE}
        assert largest["batch"] * largest["length"] <= 10**7


def test_sizes_that_are_only_sampled_do_not_go_on() -> None:
    _, _, proof = proof_of(RoundsAScale())

    assert proof.sampled
    assert not any(region.beyond for region in proof.sampled)
    assert all("length" not in region.beyond for region in proof.regions)


def test_without_a_reach_nothing_goes_on() -> None:
    _, _, proof = proof_of(Elementwise(), reach=None)

    assert not any(region.beyond for region in proof.regions)
    assert proof.memory is None


@pytest.mark.parametrize("module", [Attention, FusedAttention])
def test_the_memory_of_attention_grows_with_the_square_of_the_length(module: type[torch.nn.Module]) -> None:
    _, _, proof = proof_of(module())

    assert proof.memory is not None
    assert {"batch": 1, "length": 2} in [one.powers for one in proof.memory.bytes]


@pytest.mark.parametrize(
    ("module", "times"), [(Elementwise, 4), (Attention, 4), (Convolutions, 8), (Recurrent, 8), (FusedAttention, 1000)]
)
def test_a_call_takes_no_more_memory_than_the_bound_says_and_not_far_less(
    module: type[torch.nn.Module], times: int
) -> None:
    """The kernel of fused attention may need the square of the length, and needs less here."""
    target, groups, proof = proof_of(module())
    memory = measure_memory(target, groups, proof, Budget(60))

    assert memory is not None
    for sizes in ({"batch": 40, "length": 60}, {"batch": 1, "length": 700}, {"batch": 2, "length": 1500}):
        taken = measure_call(target, groups.resize(target.call, sizes, 0))
        assert taken <= memory.needed_bytes(sizes) <= times * taken


def test_sizes_do_not_go_on_if_calls_take_memory_that_grows_faster_than_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    target, groups, proof = proof_of(Elementwise())
    monkeypatch.setattr(memory_calls, "measure_call", lambda _, call: 1000 * call.tensors["x"].numel() ** 2)
    budget = Budget(60)

    assert measure_memory(target, groups, proof, budget) is None
    assert "grows faster" in budget.left_out()[0]


def test_a_contract_takes_sizes_beyond_and_names_the_memory() -> None:
    report = tracehouse.check(Elementwise(), (torch.randn(3, 8, 4),))

    method = report.contract.methods["forward"]
    assert method.memory is not None
    assert all(method.regions[0].beyond[symbol] == BEYOND_MAX for symbol in ("batch", "seq"))
    assert "beyond, if memory allows: " in str(report)


def test_sizes_that_a_request_names_are_its_ends() -> None:
    dynamic = {"x": {0: "batch", 1: "seq"}}
    sizes = {"batch": range(1, 9), "seq": range(1, 17)}
    report = tracehouse.check(Elementwise(), (torch.randn(3, 8, 4),), dynamic=dynamic, sizes=sizes)

    method = report.contract.methods["forward"]
    assert method.memory is None
    assert [str(region) for region in method.regions] == ["batch 1 to 8, seq 1 to 16"]
    assert not method.regions[0].beyond
