"""The causal mask is made for the first length seen, and the trace has it as a constant."""

import torch
from torch import nn

KIND = "size"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.mask = None

    def forward(self, x):
        if self.mask is None or self.mask.shape[0] != x.shape[0]:  # fault
            self.mask = torch.ones(int(x.shape[0]), int(x.shape[0])).tril()  # fault
        scores = (x @ x.T).masked_fill(self.mask == 0, -1e9)  # fault
        return scores.softmax(-1) @ x


def example():
    return (torch.randn(3, 4),), {}


def others():
    return [
        ((torch.randn(5, 4),), {}),
        ((torch.randn(2, 4),), {}),
    ]
