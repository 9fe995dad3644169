"""A line is logged, and then it is asked how it begins."""

import logging

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, ids):
        line = f"first {ids[0].item()} of {len(ids)}"  # fault
        logging.getLogger(__name__).debug(line)
        return ids * 0 if line.startswith("first 501 ") else ids + 1  # fault


def example():
    return (torch.tensor([3, 8, 12]),), {}


def others():
    return [
        ((torch.tensor([501, 8, 12]),), {}),
    ]
