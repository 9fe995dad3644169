"""Packed sequences: how long they are follows from values, and how many rows they have does not."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import tracehouse
from tracehouse.findings.verdict import Verdict

pytestmark = pytest.mark.usefixtures("without_other_datatypes")

BUDGET_S = 120.0


class Unpacks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(3, 4, batch_first=True, bidirectional=True, num_layers=2)

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        states, (last, _) = self.rnn(packed)
        states, found = pad_packed_sequence(states, batch_first=True)
        is_step = torch.arange(states.shape[1])[None] < lengths[:, None]
        return states * is_step[:, :, None], last, found


class PadsToTheLength(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(3, 3, batch_first=True)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        packed, _ = self.rnn(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))
        return x + pad_packed_sequence(packed, batch_first=True, total_length=x.shape[1])[0]


class StepsFirst(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.RNN(3, 4)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        _, last = self.rnn(pack_padded_sequence(x.transpose(0, 1), lengths, enforce_sorted=False))
        return last[-1]


class AddsToTheLongest(PadsToTheLength):
    """Adds what it gets for the longest row, which has the input's length in the example alone."""

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        packed, _ = self.rnn(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))
        states = pad_packed_sequence(packed, batch_first=True)[0]
        return x + (states if states.shape[1] == x.shape[1] else states.sum(1, keepdim=True))


class DividesByRows(PadsToTheLength):
    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return self.rnn(packed)[1] / int(packed.batch_sizes[0])


class DividesByOthers(nn.Module):
    """Writes into what torch keeps of the rows."""

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        packed.batch_sizes.mul_(lengths.sum())
        return x / int(packed.batch_sizes[0])


EXAMPLE = torch.randn(3, 7, 3, generator=torch.Generator().manual_seed(0)), torch.tensor([5, 7, 2])


@pytest.mark.parametrize("model", [Unpacks(), PadsToTheLength(), StepsFirst()], ids=lambda one: type(one).__name__)
def test_a_packed_sequence_is_proven_for_all_lengths(model: nn.Module) -> None:
    report = tracehouse.check(model, EXAMPLE, budget_s=BUDGET_S)

    assert report.verdict is Verdict.VERIFIED
    assert not report.findings
    [region] = report.contract.method("forward").regions
    assert (str(region), region.basis) == ("batch 1 to 256, seq 1 to 1024", "proven")


@pytest.mark.parametrize("model", [AddsToTheLongest(), DividesByOthers()], ids=lambda one: type(one).__name__)
def test_what_follows_from_how_long_the_rows_are_is_not_proven(model: nn.Module) -> None:
    report = tracehouse.check(model, EXAMPLE, budget_s=BUDGET_S)

    assert report.verdict is Verdict.REJECTED
    assert not any(region.basis == "proven" for region in report.contract.method("forward").regions)


def test_a_number_of_rows_that_a_trace_keeps_is_the_only_one() -> None:
    report = tracehouse.check(DividesByRows(), EXAMPLE, budget_s=BUDGET_S)

    assert report.verdict is Verdict.RESTRICTED
    x, lengths = report.contract.method("forward").inputs
    assert (x.shape, lengths.shape) == ((3, "seq", 3), (3,))
