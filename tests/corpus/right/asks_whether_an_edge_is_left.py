"""Edges from a node to itself are left out, and each node gets one: so there always is an edge."""

import torch
from torch import nn

OPEN = {"x": [0], "edges": [1]}


class Net(nn.Module):
    def forward(self, x, edges):
        nodes = torch.arange(x.shape[0])
        edges = torch.cat([edges[:, edges[0] != edges[1]], torch.stack([nodes, nodes])], 1)
        if edges.shape[1] == 0:
            return x
        return torch.zeros_like(x).index_add(0, edges[1], x[edges[0]])


def example():
    return (torch.randn(4, 3), torch.tensor([[0, 1, 2, 3, 1], [1, 2, 3, 0, 1]])), {}


def others():
    return [
        ((torch.randn(9, 3), torch.randint(0, 9, (2, 30))), {}),
        ((torch.randn(1, 3), torch.zeros(2, 2, dtype=torch.int64)), {}),
    ]
