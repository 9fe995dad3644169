"""The epsilon of a norm comes as a tensor, where torch takes a number."""

import torch
import torch.nn.functional as F
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, x, epsilon):
        return F.layer_norm(x, (4,), eps=epsilon)  # fault


def example():
    return (torch.randn(2, 4), torch.tensor(0.1)), {}


def others():
    return [
        ((torch.randn(2, 4), torch.tensor(5.0)), {}),
        ((torch.randn(3, 4), torch.tensor(0.1)), {}),
    ]
