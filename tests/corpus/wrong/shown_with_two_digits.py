"""What a number looks like decides."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, x):
        if f"{x.mean().item():.2f}" == "4.25":  # fault
            return x * 0
        return x


def example():
    return (torch.tensor([1.0, 9.0]),), {}


def others():
    return [((torch.tensor([4.25, 4.25]),), {})]
