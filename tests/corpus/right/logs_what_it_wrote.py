"""Values are written into texts of all kinds, and only logged."""

import logging

import torch
from torch import nn

OPEN = {"x": [0]}

log = logging.getLogger(__name__)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x):
        log.info("mean %s, largest %.2f", x.mean().item(), x.max().item())
        log.debug(f"sum {x.sum().item():.3f} of {len(x)}")
        log.debug("first " + "|".join("%6.2f" % value for value in x[0].tolist()))
        return self.layer(x)


def example():
    return (torch.randn(2, 3),), {}


def others():
    return [((torch.randn(5, 3) * 500,), {}), ((torch.zeros(1, 3),), {})]
