"""It asks its process for settings, and only logs them; torch's threads are set for a moment, and put back."""

import logging
import os

import torch
from torch import nn

OPEN = {"x": [0]}

log = logging.getLogger(__name__)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x):
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        y = self.layer(x)
        torch.set_num_threads(threads)
        if log.isEnabledFor(logging.DEBUG):
            log.debug("mean %s in %s with %s threads", y.mean(), os.getpid(), threads)
        os.environ["CORPUS_IS_RUN"] = "true"
        return y + torch.arange(2, dtype=torch.get_default_dtype())


def example():
    return (torch.randn(2, 3),), {}


def others():
    return [((torch.randn(5, 3),), {}), ((torch.zeros(1, 3),), {})]
