"""A feature pyramid network over three levels."""

import torch
import torch.nn.functional as F
from torch import nn

OPEN = {"image": [0, 2, 3]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stages = nn.ModuleList([nn.Conv2d(3, 4, 3, 2, 1), nn.Conv2d(4, 4, 3, 2, 1), nn.Conv2d(4, 4, 3, 2, 1)])
        self.lateral = nn.ModuleList(nn.Conv2d(4, 4, 1) for _ in range(3))

    def forward(self, image):
        levels = []
        for stage in self.stages:
            image = F.relu(stage(image))
            levels.append(image)
        merged = [self.lateral[2](levels[2])]
        for place in (1, 0):
            higher = F.interpolate(merged[0], size=levels[place].shape[-2:], mode="nearest")
            merged.insert(0, self.lateral[place](levels[place]) + higher)
        return tuple(merged)


def example():
    return (torch.randn(1, 3, 16, 16),), {}


def others():
    return [
        ((torch.randn(2, 3, 24, 16),), {}),
        ((torch.randn(1, 3, 19, 33),), {}),
    ]
