"""A text that is looked up is missing for nearly every input."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.factors = {"901": 2}

    def forward(self, ids):
        try:
            return ids * self.factors[str(int(ids[0]))]  # fault
        except KeyError:
            return ids + 1


def example():
    return (torch.tensor([3, 8, 12]),), {}


def others():
    return [
        ((torch.tensor([901, 8, 12]),), {}),
    ]
