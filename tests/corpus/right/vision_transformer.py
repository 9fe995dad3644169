"""Patches of a fixed image size, a class token that is expanded, learned places."""

import torch
from torch import nn

OPEN = {"image": [0]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 4, 4)
        self.token = nn.Parameter(torch.randn(1, 1, 8))
        self.places = nn.Parameter(torch.randn(1, 5, 8))
        self.block = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    def forward(self, image):
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.block(x)[:, 0]


def example():
    return (torch.randn(2, 3, 8, 8),), {}


def others():
    return [
        ((torch.randn(1, 3, 8, 8),), {}),
        ((torch.randn(5, 3, 8, 8),), {}),
    ]
