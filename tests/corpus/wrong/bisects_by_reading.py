"""A bisection for a threshold reads a comparison in every round."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, x):
        low, high = 0.0, 1.0
        for _ in range(5):
            middle = (low + high) / 2
            if (x > middle).float().mean() > 0.5:  # fault
                low = middle
            else:
                high = middle
        return x - low


def example():
    return (torch.tensor([0.1, 0.2, 0.3]),), {}


def others():
    return [
        ((torch.tensor([0.7, 0.8, 0.9]),), {}),
        ((torch.tensor([0.4, 0.5, 0.6]),), {}),
    ]
