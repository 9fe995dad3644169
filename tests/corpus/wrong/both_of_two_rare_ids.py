"""Where two ids are both in the text: either alone changes nothing."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, ids):
        if (ids == 61).any() and (ids == 83).any():  # fault
            return ids * 10
        return ids + 1


def example():
    return (torch.tensor([3, 8, 12]),), {}


def others():
    return [((torch.tensor([61, 8, 83]),), {})]
