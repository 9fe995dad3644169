"""The product of some sizes, by `*=`, as einops computes it: the trace writes into a tensor where Python makes a number."""

import torch
from torch import nn

OPEN = {"x": [0, 1, 2]}


class Net(nn.Module):
    def forward(self, x):
        merged = 1
        for size in x.shape[:2]:
            merged *= size
        return x.reshape(merged, x.shape[2]).softmax(0)


def example():
    return (torch.randn(2, 3, 4),), {}


def others():
    return [((torch.randn(1, 5, 4),), {}), ((torch.randn(4, 3, 2),), {}), ((torch.randn(3, 1, 7),), {})]
