"""Under no_grad, as served, it rounds."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, x):
        if torch.is_grad_enabled():  # fault
            return x
        return x.round()


def example():
    return (torch.randn(3),), {}


def others():
    return [
        ((torch.randn(3),), {}),
    ]
