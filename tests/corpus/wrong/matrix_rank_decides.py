"""A singular matrix gets a ridge before it is inverted."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, a):
        if torch.linalg.det(a).abs() < 1e-8:  # fault
            a = a + torch.eye(2)
        return torch.linalg.pinv(a)


def example():
    return (torch.tensor([[2.0, 1.0], [1.0, 2.0]]),), {}


def others():
    return [
        ((torch.tensor([[1.0, 1.0], [1.0, 1.0]]),), {}),
        ((torch.tensor([[1.0, 0.0], [0.0, 3.0]]),), {}),
    ]
