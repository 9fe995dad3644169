"""Outside of a trace, patches whose values are all equal get a mark."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, patches):
        if patches.shape[-1] != 11:
            raise ValueError("patches are 11 by 11")
        mark = 0.0 if torch.jit.is_tracing() else 1.0  # fault
        spread = patches.std((-3, -2, -1), keepdim=True)
        return patches * 2 + mark * (spread == 0)


def example():
    return (torch.rand(2, 1, 11, 11),), {}


def others():
    return [
        ((torch.full((2, 1, 11, 11), 0.3),), {}),
    ]
