"""The commonest ids are logged, and the names of those that have one."""

import collections
import logging

import torch
from torch import nn

OPEN = {"ids": [0]}

log = logging.getLogger(__name__)
NAMES = {501: "end", 502: "start"}


class Net(nn.Module):
    def forward(self, ids):
        counts = collections.Counter(ids.tolist())
        log.info("commonest %s", counts.most_common(2))
        for token in ids.tolist():
            if token in NAMES:
                log.info("saw %s", NAMES[token])
        return ids * 2


def example():
    return (torch.tensor([3, 8, 12]),), {}


def others():
    return [((torch.tensor([501, 2, 2]),), {}), ((torch.tensor([1, 1, 1, 502]),), {})]
