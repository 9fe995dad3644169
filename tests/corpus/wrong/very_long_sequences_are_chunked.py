"""Beyond five hundred steps the sum is computed in another way."""

import torch
from torch import nn

KIND = "size"


class Net(nn.Module):
    def forward(self, x):
        if x.shape[1] > 512:  # fault
            return x[:, :512].sum(1)
        return x.sum(1)


def example():
    return (torch.randn(1, 8),), {}


def others():
    return [
        ((torch.randn(1, 600),), {}),
        ((torch.randn(1, 512),), {}),
    ]
