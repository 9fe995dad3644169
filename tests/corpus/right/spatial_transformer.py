"""An image is turned and scaled as a small network says of it."""

import torch
import torch.nn.functional as F
from torch import nn

OPEN = {"image": [0, 2, 3]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.look = nn.Sequential(nn.Conv2d(1, 4, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
        self.turn = nn.Linear(16, 6)

    def forward(self, image):
        turn = self.turn(self.look(image)).view(-1, 2, 3)
        grid = F.affine_grid(turn, image.size(), align_corners=False)
        return F.grid_sample(image, grid, align_corners=False)


def example():
    return (torch.randn(2, 1, 8, 8),), {}


def others():
    return [
        ((torch.randn(1, 1, 12, 9),), {}),
        ((torch.randn(3, 1, 7, 16),), {}),
    ]
