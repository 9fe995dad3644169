"""Breaks exact ties of scores by a seeded jitter; the trace drops the generator and breaks them by chance."""

import torch
from torch import nn

KIND = "random"


class Net(nn.Module):
    def forward(self, scores, values):
        g = torch.Generator().manual_seed(7)
        jitter = torch.rand(scores.shape, generator=g)  # fault
        best = (scores + 1e-6 * jitter).argmax(-1)
        return values[best]


def example():
    return (torch.tensor([[1.0, 2, 3], [3.0, 1, 2]]), torch.arange(6.0).view(3, 2)), {}


def others():
    v = torch.arange(16.0).view(8, 2)
    s = torch.sin(torch.arange(32.0)).view(4, 8)
    return [((s, v), {}), ((s[:1] * 5, v), {}), ((torch.zeros(12, 8), v), {})]
