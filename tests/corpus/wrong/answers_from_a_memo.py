"""What was answered first is answered for ever, by an attribute."""

import torch
from torch import nn

KIND = "state"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.answer = None

    def forward(self, x):
        if self.answer is None:  # fault
            self.answer = torch.tanh(x)  # fault
        return self.answer  # fault


def example():
    return (torch.randn(2),), {}


def others():
    return [
        ((torch.randn(2),), {}),
    ]
