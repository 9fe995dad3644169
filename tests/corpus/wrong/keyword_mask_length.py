"""Lengths of a keyword input are turned into a mask of the example's width."""

import torch
from torch import nn

KIND = "size"


class Net(nn.Module):
    def forward(self, x, lengths):
        width = int(x.size(1))  # fault
        mask = torch.arange(width)[None] < lengths[:, None]  # fault
        return (x * mask).sum(1)  # fault


def example():
    return (), dict(x=torch.randn(2, 5), lengths=torch.tensor([5, 3]))


def others():
    return [
        ((), dict(x=torch.randn(2, 8), lengths=torch.tensor([8, 3]))),
        ((), dict(x=torch.randn(3, 5), lengths=torch.tensor([1, 2, 3]))),
    ]
