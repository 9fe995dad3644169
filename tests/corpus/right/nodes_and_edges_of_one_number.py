"""Messages along edges: the example has as many edges as nodes, and a graph may have no edge."""

import torch
from torch import nn

OPEN = {"nodes": [0], "edges": [1]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(4, 8)
        self.message = nn.Linear(16, 8)

    def forward(self, nodes, edges):
        start, end = edges[0], edges[1]
        x = self.embed(nodes).relu()
        messages = self.message(torch.cat([x[start], x[end]], -1)).relu()
        return x + torch.zeros_like(x).index_add_(0, end, messages)


def graph(nodes, edges):
    return (torch.randn(nodes, 4), torch.randint(0, nodes, (2, edges))), {}


def example():
    return graph(8, 8)


def others():
    return [graph(4, 12), graph(30, 100), graph(8, 1), graph(8, 0), graph(200, 900)]
