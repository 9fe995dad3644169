"""Whether all of a set of Python's are among the ids."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.needed = {901, 902}

    def forward(self, ids):
        if self.needed <= set(ids.tolist()):  # fault
            return ids * 0
        return ids


def example():
    return (torch.tensor([1, 2, 3]),), {}


def others():
    return [((torch.tensor([1, 902, 901]),), {})]
