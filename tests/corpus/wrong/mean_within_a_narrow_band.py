"""Where the mean lies between two numbers that are close to one another."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.low, self.high = 0.4131, 0.4132

    def forward(self, x):
        mean = x.mean().item()  # fault
        if self.low < mean < self.high:  # fault
            return -x
        return x


def example():
    return (torch.tensor([1.0, 2.0, 3.0]),), {}


def others():
    return [((torch.full((3,), 0.41315),), {})]
