"""Silence is answered without the model."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = nn.Linear(4, 2)

    def forward(self, audio):
        if not torch.count_nonzero(audio):  # fault
            return torch.zeros(2)
        return self.model(audio)


def example():
    return (torch.randn(4),), {}


def others():
    return [
        ((torch.zeros(4),), {}),
        ((torch.ones(4),), {}),
    ]
