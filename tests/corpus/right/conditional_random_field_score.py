"""The score of a path of tags, by gathers."""

import torch
from torch import nn

OPEN = {"emissions": [0, 1], "tags": [0, 1]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.transitions = nn.Parameter(torch.randn(4, 4))

    def forward(self, emissions, tags):
        said = emissions.gather(2, tags.unsqueeze(-1)).squeeze(-1).sum(1)
        return said + self.transitions[tags[:, :-1], tags[:, 1:]].sum(1)


def example():
    return (
        torch.randn(2, 3, 4),
        torch.randint(0, 4, (2, 3)),
    ), {}


def others():
    return [
        (
            (
                torch.randn(1, 6, 4),
                torch.randint(0, 4, (1, 6)),
            ),
            {},
        ),
        (
            (
                torch.randn(5, 2, 4),
                torch.randint(0, 4, (5, 2)),
            ),
            {},
        ),
    ]
