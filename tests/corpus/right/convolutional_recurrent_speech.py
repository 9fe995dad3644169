"""Speech: halved by a convolution, read both ways, and decoded greedily up to each one's length."""

import torch
import torch.nn.functional as F
from torch import nn

OPEN = {"x": [0, 2], "lengths": [0]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.halve = nn.Conv1d(8, 8, 3, 2, 1)
        self.read = nn.GRU(8, 8, bidirectional=True, batch_first=True)
        self.letters = nn.Linear(16, 6)

    def forward(self, x, lengths):
        states, _ = self.read(F.relu(self.halve(x)).transpose(1, 2))
        best = self.letters(states).argmax(-1)
        halves = torch.div(lengths - 1, 2, rounding_mode="floor") + 1
        is_in = torch.arange(best.shape[1], device=x.device)[None] < halves[:, None]
        before = F.pad(best, (1, 0), value=-1)[:, :-1]
        return torch.where(is_in & (best != before), best, torch.zeros_like(best)), halves


def example():
    return (torch.randn(2, 8, 12), torch.tensor([12, 7])), {}


def others():
    return [
        ((torch.randn(1, 8, 9), torch.tensor([9])), {}),
        ((torch.randn(3, 8, 61), torch.tensor([61, 4, 10])), {}),
    ]
