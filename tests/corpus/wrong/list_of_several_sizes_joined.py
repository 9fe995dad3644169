"""A jagged batch is flattened with the offsets of the example's pieces."""

import itertools

import torch
from torch import nn

KIND = "size"


class Net(nn.Module):
    def forward(self, pieces):
        offsets = [0, *itertools.accumulate(len(piece) for piece in pieces)]  # fault
        flat = torch.cat(pieces)
        return torch.stack([flat[start:end].mean(0) for start, end in itertools.pairwise(offsets)])  # fault


def example():
    return ([torch.randn(2, 3), torch.randn(4, 3)],), {}


def others():
    return [
        (([torch.randn(3, 3), torch.randn(3, 3)],), {}),
        (([torch.randn(1, 3), torch.randn(5, 3)],), {}),
    ]
