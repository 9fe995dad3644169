"""Convolutions over frames, height and width: four free dims, and clips that are longer and larger than the example."""

import torch
from torch import nn

OPEN = {"clip": [0, 2, 3, 4]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv3d(3, 4, 3, (1, 2, 2), 1), nn.ReLU(), nn.MaxPool3d(2), nn.Conv3d(4, 4, 3, padding=1), nn.ReLU()
        )
        self.head = nn.Linear(4, 5)

    def forward(self, clip):
        return self.head(nn.functional.adaptive_avg_pool3d(self.features(clip), 1).flatten(1))


def example():
    return (torch.randn(2, 3, 8, 32, 32),), {}


def others():
    sizes = ((1, 8, 32, 32), (1, 16, 64, 80), (1, 30, 48, 40), (4, 4, 40, 40))
    return [((torch.randn(batch, 3, *size),), {}) for batch, *size in sizes]
