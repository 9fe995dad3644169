"""A digest of the input is logged, to find the request again."""

import hashlib
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
        log.debug("request %s", hashlib.sha1(x.numpy().tobytes()).hexdigest())
        return self.layer(x)


def example():
    return (torch.randn(2, 3),), {}


def others():
    return [((torch.randn(5, 3) * 500,), {}), ((torch.zeros(1, 3),), {})]
