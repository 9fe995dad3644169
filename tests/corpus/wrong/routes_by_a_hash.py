"""The remainder of what all ids come to."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, ids):
        code = sum(one * 31**place for place, one in enumerate(ids.tolist()))  # fault
        if code % 1009 == 17:  # fault
            return ids * 0
        return ids + 1


def example():
    return (torch.tensor([3, 8, 12]),), {}


def others():
    return [((torch.tensor([17, 0, 0]),), {}), ((torch.tensor([1026, 0, 0]),), {})]
