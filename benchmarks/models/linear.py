"""One linear layer: `linear:linear`, an input of FP32 [1, 16]."""

from torch import nn


def linear() -> nn.Linear:
    return nn.Linear(16, 16)
