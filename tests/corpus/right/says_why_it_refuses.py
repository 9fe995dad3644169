"""Values and sizes are written into the messages of its errors."""

import torch
from torch import nn

OPEN = {"x": [0]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x):
        assert x.dim() == 2, f"two dims are needed, and there are {x.shape}"
        if x.isnan().any().item():
            raise ValueError(f"not a number in {x.flatten()[:3].tolist()} of {x.numel()}")
        return self.layer(x)


def example():
    return (torch.randn(2, 3),), {}


def others():
    return [((torch.randn(5, 3) * 500,), {}), ((torch.zeros(1, 3),), {})]
