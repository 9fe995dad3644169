"""A table of Python has a word for two pairs of ids."""

import torch
from torch import nn

KIND = "value"

MERGES = {(12, 40): 90, (40, 41): 91}


class Net(nn.Module):
    def forward(self, ids):
        first, second = ids.tolist()  # fault
        return ids + MERGES.get((first, second), 0)  # fault


def example():
    return (torch.tensor([3, 8]),), {}


def others():
    return [((torch.tensor([12, 40]),), {}), ((torch.tensor([40, 41]),), {})]
