"""Only where both of two ids are somewhere in the text."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.begin, self.end = 31, 77

    def forward(self, ids):
        listed = ids.tolist()  # fault
        if self.begin in listed and self.end in listed:  # fault
            return ids * 10
        return ids + 1


def example():
    return (torch.tensor([3, 8, 12]),), {}


def others():
    return [((torch.tensor([31, 8, 77]),), {})]
