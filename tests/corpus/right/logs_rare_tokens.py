"""Tokens that nearly no text has are written to the log, with all of it."""

import logging

import torch
from torch import nn

OPEN = {"ids": [0]}
END = 57


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(100, 3)

    def forward(self, ids):
        if (ids == END).any():
            logging.debug("it ends: %s", ids.tolist())
        return self.table(ids)


def example():
    return (torch.tensor([[3, 8, 12]]),), {}


def others():
    return [((torch.tensor([[57, 2, 4], [1, 2, 57]]),), {}), ((torch.tensor([[1, 2, 99]]),), {})]
