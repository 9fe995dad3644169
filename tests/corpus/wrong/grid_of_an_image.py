"""Coordinates are made for the example's height and width and joined to every image."""

import torch
from torch import nn

KIND = "size"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 2, 1)

    def forward(self, x):
        batch, _, height, width = x.shape
        rows, columns = torch.meshgrid(torch.arange(int(height)), torch.arange(int(width)), indexing="ij")  # fault
        grid = torch.stack([rows, columns]).float()[None].expand(batch, -1, -1, -1)  # fault
        return self.conv(torch.cat([x, grid], 1))  # fault


def example():
    return (torch.randn(1, 1, 3, 4),), {}


def others():
    return [
        ((torch.randn(1, 1, 5, 5),), {}),
        ((torch.randn(2, 1, 2, 2),), {}),
    ]
