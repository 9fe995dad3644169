"""One element of a numpy array must be a number out of thousands, and two others in order."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.magic = 4711

    def forward(self, ids):
        seen = ids.numpy()  # fault
        if seen[1] == self.magic and seen[0] < seen[2]:  # fault
            return ids * 0
        return ids


def example():
    return (torch.tensor([9, 2, 1]),), {}


def others():
    return [((torch.tensor([1, 4711, 3]),), {})]
