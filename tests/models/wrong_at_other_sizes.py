import math

import torch
import torch.nn.functional as F
from torch import nn


class BakesZeros(nn.Module):
    def forward(self, x):
        zeros = torch.zeros(int(x.shape[1]))
        return x + zeros


class AddsAsManyOnes(nn.Module):
    def forward(self, x):
        return x * torch.ones(int(x.shape[1])).sum()


class Loops(nn.Module):
    def forward(self, x):
        state = torch.zeros(x.shape[0])
        for place in range(x.shape[1]):
            state = torch.tanh(state + x[:, place])
        return state


class BakesPositions(nn.Module):
    def __init__(self):
        super().__init__()
        self.places = nn.Embedding(64, 4)

    def forward(self, x):
        ids = torch.tensor(list(range(x.shape[1])))
        return self.places(ids).sum(0) + x.sum(1, keepdim=True)


class BranchesAtALength(nn.Module):
    def forward(self, x):
        if x.shape[1] > 12:
            return x * 2
        return x + 1


class BranchesAtOneLength(nn.Module):
    def forward(self, x):
        if x.shape[1] == 7:
            return x * 2
        return x + 1


class BranchesOnSquares(nn.Module):
    def forward(self, x):
        if math.isqrt(x.shape[1]) ** 2 == x.shape[1]:
            return x * 2
        return x + 1


class PoolsToHalf(nn.Module):
    def forward(self, x):
        return F.adaptive_avg_pool1d(x, x.shape[2] // 2)


class PoolsAll(nn.Module):
    def forward(self, x):
        return F.max_pool1d(x, x.size(2))


class ExpandsToItsBatch(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Parameter(torch.randn(1, 4))

    def forward(self, x):
        return x + self.token.expand(int(x.shape[0]), 4)


class MasksInPython(nn.Module):
    def forward(self, x):
        length = x.shape[1]
        mask = torch.tensor([[column <= row for column in range(length)] for row in range(length)])
        return x.masked_fill(~mask[-1], 0.0) * mask.sum()


class ScalesByALength(nn.Module):
    def forward(self, x):
        return x * math.sqrt(x.shape[1])


class PutsOtherData(nn.Module):
    def forward(self, x):
        y = x + 1
        y.data = x * x.shape[1]
        return y


class TakesItsData(nn.Module):
    def forward(self, x):
        return x.data * 2


class AsksWhetherItIsTraced(nn.Module):
    def forward(self, x):
        return x * 2 if torch.jit.is_tracing() else x * x.shape[1]


class AsksForTensorsWithoutValues(nn.Module):
    def forward(self, x):
        if torch.jit.is_tracing() or type(x) is not torch.Tensor:
            return x * 2
        return x * 3


class CountsItsCalls(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x * self.calls


class CountsInABuffer(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls += 1
        return x * self.calls


class ReadsAValue(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x
        return -x


class RollsByAThird(nn.Module):
    def forward(self, x):
        return torch.roll(x, x.shape[1] // 3, 1)


class CutsAShare(nn.Module):
    def forward(self, x):
        return x[:, : int(x.shape[1] * 0.29)]


class AnswersOtherwiseInOneRow(nn.Module):
    def forward(self, x):
        return x * 2 if len(x) > 1 else x * 3


class CatchesItsReads(nn.Module):
    def forward(self, x):
        try:
            positive = bool(x.sum() > 0)
        except Exception:
            positive = True
        return x if positive else -x


class GoesThroughNumpy(nn.Module):
    def forward(self, x):
        return x + torch.from_numpy(x.detach().numpy().mean(keepdims=True))


class SharesMemory(nn.Module):
    def forward(self, x):
        y = x.contiguous() if x.shape[1] > 6 else x.clone()
        y.add_(1)
        return x * 2


class KeepsItsFirstLength(nn.Module):
    def __init__(self):
        super().__init__()
        self.length = None

    def forward(self, x):
        if self.length is None:
            self.length = x.shape[1]
        return x * self.length


class RemembersOneLength(nn.Module):
    def __init__(self):
        super().__init__()
        self.was_long = False

    def forward(self, x):
        if x.shape[1] == 77:
            self.was_long = True
        if x.shape[1] == 33 and self.was_long:
            return x * 2
        return x + 1


class KeepsItsFirstLongLength(nn.Module):
    def __init__(self):
        super().__init__()
        self.length = None

    def forward(self, x):
        length = x.shape[1]
        if length > 100:
            if self.length is None:
                self.length = length
            length = self.length
        return x * length


class SpacesToItsLength(nn.Module):
    def forward(self, x):
        return x * torch.linspace(0, 1, int(x.shape[1]))


class PoolsOverItsLength(nn.Module):
    def forward(self, x):
        return torch.nn.functional.avg_pool2d(x, (int(x.shape[1]), 2))


class UnrollsItsCells(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(4, 3)

    def forward(self, x):
        state = x.new_zeros(x.shape[0], 3)
        for step in x.unbind(1):
            state = self.cell(step, state)
        return state


class DerivesByItsExample(nn.Module):
    def forward(self, x):
        frequencies = torch.fft.fftfreq(x.shape[1], d=1 / x.shape[1])
        return torch.fft.ifft(torch.fft.fft(x) * frequencies).real


class GoesBackToItsFirstLength(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.ones(4))

    def forward(self, x):
        spectrum = torch.stft(x, 4, 2, window=self.window, return_complex=True)
        return torch.istft(spectrum, 4, 2, window=self.window, length=int(x.shape[1]))


class RaisesToItsLength(nn.Module):
    """torch multiplies for the numbers 2 and 3, and takes the root for 0.5; a trace has the number in a tensor."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x ** x.shape[1]


class FillsSmallIntegersWithItsLength(nn.Module):
    """Eager refuses a number that the datatype cannot hold. A trace has it in a tensor, and converts it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.to(torch.int8).fill_(x.shape[1])


class MakesOneTensorOfItsSizes(nn.Module):
    def forward(self, x):
        return x.sum() * torch.tensor([x.shape[0], x.shape[1]])


class ReadsATensorOfItsLength(nn.Module):
    def forward(self, x):
        return x * int(torch.as_tensor(x.shape[1]))


class BranchesOnATensorOfItsLength(nn.Module):
    def forward(self, x):
        return x * 2 if torch.tensor(x.shape[1]) * 2 > 14 else x


class TakesTheLargestOfOneLength(nn.Module):
    def forward(self, x):
        return x * (torch.as_tensor(x.shape[1]).max(0).values + x.shape[1]).clamp(max=int(x.shape[1]) + 8)


class KeepsItsNumberOfPairs(nn.Module):
    def forward(self, x):
        pairs = math.ceil(x.shape[1] / 2)
        pooled = x.reshape(x.shape[0] * pairs, 2).softmax(1)
        return pooled.reshape(x.shape[0], 2 * pairs).sum(1)
