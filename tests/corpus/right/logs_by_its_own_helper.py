"""A helper of its own logs the text."""

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
        self.note(f"mean {x.mean().item():.2f}")
        return self.layer(x)

    def note(self, text):
        if log.isEnabledFor(logging.DEBUG):
            log.debug("net: " + text)


def example():
    return (torch.randn(2, 3),), {}


def others():
    return [((torch.randn(5, 3) * 500,), {}), ((torch.zeros(1, 3),), {})]
