"""Tables are asked by dtype and by the name in its configuration."""

import functools

import torch
from torch import nn

OPEN = {"x": [0, 1]}

ACTIVATIONS = {"relu": torch.relu, "tanh": torch.tanh}
EPSILONS = {torch.float32: 1e-6, torch.float16: 1e-3}


@functools.lru_cache
def scale_of(dtype):
    return 2.0 if dtype is torch.float32 else 1.0


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.activation = "tanh"

    def forward(self, x):
        match self.activation:
            case "tanh":
                values = x * scale_of(x.dtype)
            case other:
                raise ValueError(f"{other} of {x.shape}")
        return ACTIVATIONS[self.activation](values + EPSILONS.get(x.dtype, 1e-6))


def example():
    return (torch.randn(2, 4),), {}


def others():
    return [((torch.randn(5, 37),), {}), ((torch.randn(1, 9),), {})]
