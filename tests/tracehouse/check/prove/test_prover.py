"""A proof says where the artifact differs and at which line, what is not proven and why, and which sizes to try."""

import builtins
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
import torch
from torch.fx.experimental.sym_node import SymNode

from tests.tracehouse.check.targets import make_target
from tracehouse.check import time_limit
from tracehouse.check.prove import prover
from tracehouse.check.prove.prover import Proof, prove
from tracehouse.check.prove.wanted_sizes import default_sizes
from tracehouse.check.size_groups import Groups
from tracehouse.contract.dims import SymbolicShape
from tracehouse.differential.budget import Budget
from tracehouse.eager.model import LoadedModel

Load = Callable[..., LoadedModel]

BATCH, LENGTH = 3, 8
WANTED = {"batch": range(1, 65), "length": range(1, 257)}
SHAPE: SymbolicShape = ("batch", "length")


def proof_of(module: torch.nn.Module, *, scripted: bool = False, shape: SymbolicShape = SHAPE, **given: Any) -> Proof:
    sizes = {"batch": BATCH, "length": LENGTH}
    generator = torch.Generator().manual_seed(0)
    x = torch.randn([sizes[dim] if isinstance(dim, str) else dim for dim in shape], generator=generator)
    target = make_target(module, x, scripted=scripted)
    name = next(iter(target.call.tensors))
    groups = Groups({name: shape}, {dim: sizes[dim] for dim in shape if isinstance(dim, str)}, {name: {}})
    wanted = {symbol: WANTED[symbol] for symbol in groups.symbols}
    return prove(target, groups, wanted, given.pop("budget", Budget(60)), **given)


def lines_of(proof: Proof) -> set[str]:
    return {one.line.source for one in [*proof.refutations, *proof.gaps] if one.line is not None}


def test_a_right_model_is_proven_for_all_sizes_in_one_region(load: Load) -> None:
    proof = proof_of(load("right_at_every_size", "WritesInPlace").module)

    assert [str(region) for region in proof.regions] == ["batch 1 to 64, length 1 to 256"]
    assert (proof.proven, proof.points, proof.uncovered) == (64 * 256, 64 * 256, 0)


@pytest.mark.parametrize(
    "name",
    [
        "Recurrent",
        "Elman",
        "Spaced",
        "PoolsByItsShape",
        "Samples",
        "MultipliesSizesInPlace",
        "WritesNumbersFirst",
        "ScalesByAColumn",
    ],
)
def test_operators_that_take_sizes_as_numbers_or_run_along_a_length_are_proven_for_all_of_them(
    load: Load, name: str
) -> None:
    proof = proof_of(load("right_at_every_size", name).module, shape=("batch", "length", 4))

    assert [str(region) for region in proof.regions] == ["batch 1 to 64, length 1 to 256"]


def test_what_eager_refuses_is_neither_proven_nor_a_fault(load: Load) -> None:
    proof = proof_of(load("right_at_every_size", "PairsUp").module)

    assert [str(region) for region in proof.regions] == ["batch 1 to 64, length 2 to 256 in steps of 2"]
    assert (proof.refused, proof.refutations, proof.gaps) == (64 * 128, [], [])


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("BakesZeros", "zeros = torch.zeros(int(x.shape[1]))"),
        ("Loops", "state = torch.tanh(state + x[:, place])"),
        ("BranchesAtALength", "return x + 1"),
        ("RollsByAThird", "return torch.roll(x, x.shape[1] // 3, 1)"),
        ("CutsAShare", "return x[:, : int(x.shape[1] * 0.29)]"),
        ("ScalesByALength", "return x * math.sqrt(x.shape[1])"),
        ("TakesItsData", "return x.data * 2"),
        ("AsksWhetherItIsTraced", "return x * 2 if torch.jit.is_tracing() else x * x.shape[1]"),
        ("ReadsAValue", "if x.sum() > 0:"),
        ("CatchesItsReads", "positive = bool(x.sum() > 0)"),
        ("GoesThroughNumpy", "return x + torch.from_numpy(x.detach().numpy().mean(keepdims=True))"),
    ],
)
def test_a_proof_that_fails_names_the_line(load: Load, name: str, line: str) -> None:
    proof = proof_of(load("wrong_at_other_sizes", name).module)

    assert lines_of(proof) == {line}
    assert {one.line.file for one in [*proof.refutations, *proof.gaps] if one.line} == {"wrong_at_other_sizes.py"}
    assert proof.proven <= 64 * 12  # of batches with the few lengths that come out alike


def test_where_other_lengths_fail_the_examples_own_is_proven_for_all_rows(load: Load) -> None:
    proof = proof_of(load("wrong_at_other_sizes", "KeepsItsNumberOfPairs").module)

    for batch in (1, 2, 64):
        assert any(region.contains({"batch": batch, "length": LENGTH}) for region in proof.regions), proof.regions


class Standardises(torch.nn.Module):
    """Computes mean and deviation at once, and one by one where it is traced: the mean is rounded otherwise then."""

    def __init__(self, *, always_at_once: bool) -> None:
        super().__init__()
        self.always_at_once = always_at_once

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if torch.jit.is_tracing() and not self.always_at_once:
            deviation, mean = x.std(1, keepdim=True), x.mean(1, keepdim=True)
        else:
            deviation, mean = torch.std_mean(x, 1, keepdim=True)
        return (x - mean) / (deviation + 1.0)


def test_a_mean_that_is_rounded_otherwise_is_proven_but_for_its_last_bits() -> None:
    mixed, same = (proof_of(Standardises(always_at_once=always)) for always in (False, True))

    assert (mixed.regions, [str(one) for one in mixed.sampled]) == ([], ["batch 1 to 64, length 1 to 256"])
    assert [str(one) for one in same.regions] == ["batch 1 to 64, length 1 to 256"]


def test_a_refutation_has_its_sizes(load: Load) -> None:
    proof = proof_of(load("wrong_at_other_sizes", "BranchesAtOneLength").module)

    assert [str(region) for region in proof.regions] == ["batch 1 to 64, length 1 to 6 or 8 to 256"]
    assert {refuted.sizes["length"] for refuted in proof.refutations} == {7}
    assert proof.refutations[0].operator == "add"


def test_a_threshold_has_sizes_on_both_of_its_sides(load: Load) -> None:
    proof = proof_of(load("wrong_at_other_sizes", "BranchesAtALength").module)

    threshold = proof.thresholds[0]
    assert threshold.line is not None
    assert threshold.line.source == "if x.shape[1] > 12:"
    assert {threshold.holds["length"], threshold.fails["length"]} == {12, 13}


class LooksAtANumber(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum().item() > 1e9:
            print("large")
        return x * 2


def test_a_read_that_is_known_to_be_harmless_is_no_hindrance() -> None:
    (line,) = [one.line for one in proof_of(LooksAtANumber()).gaps]
    assert line is not None

    assert proof_of(LooksAtANumber()).proven == 0
    assert proof_of(LooksAtANumber(), harmless=[line]).proven == 64 * 256


def test_a_truth_is_followed_both_ways_and_no_hindrance(load: Load) -> None:
    assert proof_of(load("right_at_every_size", "LooksAtAValue").module).proven == 64 * 256


def test_a_script_is_proven_through_its_branches_and_loops(load: Load) -> None:
    proof = proof_of(load("right_at_every_size", "Scripted").module, scripted=True)

    assert [str(region) for region in proof.regions] == ["batch 1 to 64, length 1 to 256"]


def test_what_is_left_when_a_proof_ends_is_reported_once(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prover, "_SINGLE_SIZE_PROOFS_MAX", 24)

    proof = proof_of(load("right_at_every_size", "Steps").module, scripted=True)

    assert proof.uncovered > 0
    [left] = proof.gaps
    assert "each of which holds for few sizes" in left.reason
    assert "batch 1 to 64, length 14 to 256" in left.reason
    assert not any(region.contains(left.sizes) for region in proof.regions)


@pytest.mark.parametrize("name", ["KeepsItsFirstLength", "KeepsItsFirstLongLength", "RemembersOneLength"])
def test_a_model_that_remembers_a_size_is_not_proven(load: Load, name: str) -> None:
    proof = proof_of(load("wrong_at_other_sizes", name).module)

    assert proof.regions == []
    assert "what a call leaves in the model" in proof.gaps[-1].reason


def test_nothing_is_proven_without_time_and_the_reason_is_reported(load: Load) -> None:
    budget = Budget(0)
    proof = proof_of(load("right_at_every_size", "Linear").module, shape=("batch", 4), budget=budget)

    assert (proof.regions, proof.uncovered) == ([], 64)
    assert [one.reason for one in proof.gaps] == ["there was no time left"]


def test_a_proof_leaves_nothing_behind(load: Load) -> None:
    module = load("right_at_every_size", "CachesItsMask").module
    drawn = torch.get_rng_state()
    proof_of(module, shape=("batch", "length", 4))

    assert module.mask is None
    assert torch.is_grad_enabled()
    assert type(torch.zeros(1)) is torch.Tensor
    assert drawn.shape == torch.get_rng_state().shape


class EndsAtACall:
    """A budget, and its clock: at the n-th call of a Python function it is spent, and from then on time flies.

    So the alarm that says so rings again and again, as it may on a busy machine.
    """

    left_s = 60.0
    stood_s = 0.0

    def __init__(self, call: int) -> None:
        self._calls_left = call
        self._now_s = 0.0

    @property
    def is_spent(self) -> bool:
        return self._calls_left <= 0

    def share(self, _: float) -> "EndsAtACall":
        return self

    def monotonic(self) -> float:
        if self.is_spent:
            self._now_s = max(self._now_s, self.left_s) + 0.2
        return self._now_s

    read = monotonic

    def count(self, _: FrameType, event: str, __: object) -> None:
        self._calls_left -= event == "call" and signal.getitimer(signal.ITIMER_REAL)[0] > 0
        if self.is_spent:
            sys.setprofile(None)
            signal.raise_signal(signal.SIGALRM)


@pytest.mark.parametrize("call", range(100, 10_000, 600))
def test_a_proof_that_is_stopped_anywhere_leaves_nothing_behind(
    load: Load, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    module = load("right_at_every_size", "WritesInPlace").module
    budget = EndsAtACall(call)
    monkeypatch.setattr(time_limit, "CLOCK", budget)
    kinds = torch.Tensor, torch.SymInt, SymNode
    before = isinstance, [dict(vars(kind)) for kind in kinds]
    sys.setprofile(budget.count)
    try:
        proof = proof_of(module, budget=budget)
    finally:
        sys.setprofile(None)

    assert [one.reason for one in proof.gaps] == ["there was no time left"]
    assert torch._C._len_torch_dispatch_stack() == torch._C._len_torch_function_stack() == 0
    assert (builtins.isinstance, [dict(vars(kind)) for kind in kinds]) == before


def test_a_proof_of_many_symbols_has_as_many_sizes_of_each(load: Load) -> None:
    target = make_target(load("right_at_every_size", "WritesInPlace").module, torch.randn(3, 4, 5, 6, 7))
    name = next(iter(target.call.tensors))
    groups = Groups({name: ("a", "b", "c", "d", "e")}, {"a": 3, "b": 4, "c": 5, "d": 6, "e": 7}, {name: {}})

    proof = prove(target, groups, dict.fromkeys("abcde", range(2, 1025)), Budget(120))

    assert [str(region) for region in proof.regions] == [", ".join(f"{symbol} 2 to 1024" for symbol in "abcde")]


def test_a_batch_of_one_is_proven_before_other_sizes_of_one(load: Load) -> None:
    target = make_target(load("right_at_every_size", "WritesInPlace").module, torch.randn(3, 4))
    name = next(iter(target.call.tensors))
    groups = Groups({name: ("batch", "length")}, {"batch": 3, "length": 4}, {name: {}})
    proof = prove(target, groups, {"batch": range(1, 9), "length": range(1, 9)}, Budget(120))

    _, batch_of_one = proof.borders[:2]
    assert [sizes["batch"] for sizes in batch_of_one] == [1, 1]
    assert all(sizes["length"] > 1 for ends in proof.borders[:2] for sizes in ends)


class Cross(torch.nn.Module):
    """Each row of one input meets each row of another one. Python asks whether there is one row only."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if x.shape[0] == 1 or y.shape[0] == 1:
            return x.relu() @ y.T
        return x.relu() @ y.T


def test_one_row_of_each_of_two_numbers_of_rows_is_proven_before_other_sizes_of_one() -> None:
    target = make_target(Cross(), torch.randn(3, 4), torch.randn(5, 4))
    first, second = target.call.tensors
    groups = Groups({first: ("rows", 4), second: ("columns", 4)}, {"rows": 3, "columns": 5}, {first: {}, second: {}})

    proof = prove(target, groups, {"rows": range(1, 9), "columns": range(1, 9)}, Budget(120))

    begun = [smallest for smallest, _ in proof.borders[1:4]]
    assert [(sizes["rows"] == 1, sizes["columns"] == 1) for sizes in begun] == [
        (True, True),
        (True, False),
        (False, True),
    ]


class BranchesOnLayout(torch.nn.Module):
    """A transposed matrix is contiguous only where it has one row or one column."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.t().is_contiguous() else x * 3


class BranchesOnLayoutOfResult(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.t().relu().is_contiguous() else x * 3


class BranchesOnStride(torch.nn.Module):
    """An elementwise operator lays its result out anew where the transposed matrix is contiguous after all."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if (x.t() * 2.0).stride(0) == 1 else x * 3


class BranchesOnStrideOfSum(torch.nn.Module):
    """What is contiguous though its strides are not those of a new tensor is laid out anew where a size is 1."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if (x[:, :1].transpose(0, 1) + torch.ones(x.shape[0])).stride(0) == 1 else x * 3


class BranchesOnDims(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.squeeze().dim() == 2 else x * 3


class BranchesOnShapeOfBoth(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if (x + torch.ones(5, 1)).shape == x.shape else x * 3


@pytest.mark.parametrize(
    "module",
    [
        BranchesOnLayout,
        BranchesOnLayoutOfResult,
        BranchesOnStride,
        BranchesOnStrideOfSum,
        BranchesOnDims,
        BranchesOnShapeOfBoth,
    ],
)
def test_a_size_of_one_that_goes_another_way_is_not_proven(module: type[torch.nn.Module]) -> None:
    model = module()
    target = make_target(model, torch.randn(5, 4))
    (name,) = target.call.tensors
    groups = Groups({name: ("rows", "columns")}, {"rows": 5, "columns": 4}, {name: {}})

    proof = prove(target, groups, {"rows": range(1, 9), "columns": range(1, 9)}, Budget(120))

    assert any(region.contains({"rows": 5, "columns": 4}) for region in proof.regions)
    for rows, columns in ((1, 4), (5, 1), (1, 1), (1, 5)):
        x = torch.randn(rows, columns)
        is_right = torch.equal(model(x), target.artifact(x))
        is_proven = any(region.contains({"rows": rows, "columns": columns}) for region in proof.regions)
        assert is_right or not is_proven, (rows, columns)


class TakesByPlace(torch.nn.Module):
    """Takes as many rows as there are places, or fewer: each of both sizes decides about the other."""

    def forward(self, places: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return rows.gather(2, places.unsqueeze(-1)).squeeze(-1)


def test_sizes_of_which_one_is_at_most_the_other_are_proven_in_part() -> None:
    target = make_target(TakesByPlace(), torch.zeros(2, 7, dtype=torch.int64), torch.randn(2, 7, 5))
    places, rows = target.call.tensors
    groups = Groups(
        {places: ("batch", "seq"), rows: ("batch", "length", "width")},
        {"batch": 2, "seq": 7, "length": 7, "width": 5},
        {places: {}, rows: {}},
    )

    proof = prove(target, groups, default_sizes(groups), Budget(120))

    proven = [{"batch": 2, "seq": seq, "length": length, "width": 5} for seq, length in ((7, 7), (7, 300), (3, 40))]
    assert all(any(region.contains(sizes) for region in proof.regions) for sizes in proven)
    assert not any(region.contains({**groups.example, "seq": 8}) for region in proof.regions)


class JoinsTwice(torch.nn.Module):
    """A trace joins the same parts in another way; `parts` says in which order it does."""

    def __init__(self, *parts: int, dim: int = 1, half: bool = False) -> None:
        super().__init__()
        self.parts = parts
        self.dim = dim
        self.half = half

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = [x.half() if self.half else x, x.relu(), x.double() * 3 if self.half else x * 3]
        if not torch.jit.is_tracing():
            return torch.cat(parts, 1)
        first, second, third = (parts[place] for place in self.parts)
        return torch.cat([torch.cat([first, second], self.dim), third], -1)


def test_parts_that_are_joined_in_two_steps_are_the_same_whole() -> None:
    proof = proof_of(JoinsTwice(0, 1, 2))

    assert proof.proven == proof.points


@pytest.mark.parametrize("module", [JoinsTwice(1, 0, 2), JoinsTwice(0, 2, 1), JoinsTwice(0, 1, 2, half=True)])
def test_parts_in_another_order_or_converted_on_the_way_are_another_whole(module: torch.nn.Module) -> None:
    assert proof_of(module).proven == 0


@pytest.mark.parametrize(
    "entrypoint",
    [
        "SizeAsText",
        "SizesAsTextOfMap",
        "SizeThatIsMissing",
        "SizeThatDividesByZero",
        "SizeThatIsAnInt",
        "SizeThatIsMatched",
        "SizeThatHasBits",
    ],
)
def test_a_size_that_python_does_more_with_than_compute_is_not_proven_where_it_matters(
    load: Load, entrypoint: str
) -> None:
    proof = proof_of(load("lets_values_leave", entrypoint).module)

    lengths = [span for region in proof.regions for span in region.spans["length"]]
    assert not any(37 in span for span in lengths)


def test_a_size_that_only_a_message_shows_is_proven(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    proof = proof_of(load("lets_values_leave", "SizeThatIsLogged").module)

    assert proof.proven == proof.points
    assert "shape (3, 8)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("entrypoint", "is_proven"),
    [("TextWhereItIsLong", False), ("SlightlyWhereItIsLong", False), ("LogWhereItIsLong", True)],
)
def test_a_value_that_only_decides_at_other_sizes_is_not_proven_there(
    load: Load, entrypoint: str, is_proven: bool
) -> None:
    module = load("lets_values_leave", entrypoint).module
    harmless = {one.line for one in proof_of(module).gaps if one.line is not None}

    proof = proof_of(module, harmless=harmless)

    accepted = [span for region in proof.regions for span in region.spans["length"]]
    assert any(8 in span for span in accepted)
    assert any(37 in span for span in accepted) == is_proven


class TellsByItsText(torch.nn.Module):
    def __init__(self, write: Callable[[torch.Tensor], str]) -> None:
        super().__init__()
        self.write = write

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if "7777" in self.write(x.sum()) else x + 1


class SaysWhatItSees(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        print(f"the sum is {x.sum()}")
        return x + 1


@pytest.mark.parametrize("write", [repr, "{}".format, lambda one: f"{one}", "%s".__mod__], ids=range(4))
def test_what_follows_from_the_text_of_a_tensor_is_not_proven(write: Callable[[torch.Tensor], str]) -> None:
    assert proof_of(TellsByItsText(write)).regions == []


def test_a_text_of_a_tensor_that_is_only_shown_decides_nothing() -> None:
    assert [str(region) for region in proof_of(SaysWhatItSees()).regions] == ["batch 1 to 64, length 1 to 256"]
