"""Buckets of distances by logarithms, all in the graph."""

import torch
from torch import nn

OPEN = {"x": [0, 1]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.bias = nn.Embedding(8, 2)

    def forward(self, x):
        place = torch.arange(x.shape[1])
        distance = (place[None, :] - place[:, None]).abs()
        far = 4 + (torch.log(distance.clamp(min=1).float() / 4) / 2 * 4).long()
        bucket = torch.where(distance < 4, distance, far.clamp(max=7))
        bias = self.bias(bucket.clamp(min=0)).permute(2, 0, 1)
        return (x @ x.transpose(1, 2)).unsqueeze(1) + bias


def example():
    return (torch.randn(2, 5, 3),), {}


def others():
    return [
        ((torch.randn(1, 20, 3),), {}),
        ((torch.randn(2, 1, 3),), {}),
    ]
