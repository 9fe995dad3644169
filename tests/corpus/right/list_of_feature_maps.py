"""A list of two feature maps of different sizes is pooled and joined."""

import torch
import torch.nn.functional as F
from torch import nn

OPEN = {"maps.0": [0, 2], "maps.1": [0, 2]}


class Net(nn.Module):
    def forward(self, maps):
        return torch.cat([F.adaptive_max_pool1d(each, 2).flatten(1) for each in maps], 1)


def example():
    return ([torch.randn(2, 3, 8), torch.randn(2, 4, 5)],), {}


def others():
    return [
        (([torch.randn(1, 3, 11), torch.randn(1, 4, 3)],), {}),
        (([torch.randn(4, 3, 2), torch.randn(4, 4, 2)],), {}),
    ]
