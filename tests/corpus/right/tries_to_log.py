"""What is raised where it logs is caught, and changes nothing."""

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
        try:
            log.info("mean %s", format(x.mean().item(), ".2f"))
        except Exception:
            log.info("no mean")
        return self.layer(x)


def example():
    return (torch.randn(2, 3),), {}


def others():
    return [((torch.randn(5, 3) * 500,), {}), ((torch.zeros(1, 3),), {})]
