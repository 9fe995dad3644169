"""While it is traced it skips the normalisation, as some exporters ask for."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, x):
        if torch.jit.is_tracing():  # fault
            return x
        return x / x.norm()


def example():
    return (torch.randn(3),), {}


def others():
    return [
        ((torch.randn(3),), {}),
    ]
