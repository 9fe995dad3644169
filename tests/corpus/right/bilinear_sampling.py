"""A spatial transformer: an affine grid of the image's size."""

import torch
import torch.nn.functional as F
from torch import nn

OPEN = {"image": [0, 2, 3]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.place = nn.Linear(2, 6)

    def forward(self, image):
        theta = self.place(image.mean((2, 3))).view(-1, 2, 3)
        grid = F.affine_grid(theta, image.size(), align_corners=False)
        return F.grid_sample(image, grid, align_corners=False)


def example():
    return (torch.randn(1, 2, 4, 4),), {}


def others():
    return [
        ((torch.randn(3, 2, 4, 4),), {}),
        ((torch.randn(1, 2, 6, 5),), {}),
    ]
