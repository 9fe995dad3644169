"""A regular expression looks at the ids as text."""

import re

import torch
from torch import nn

KIND = "value"

PATTERN = re.compile(r"9.1,")


class Net(nn.Module):
    def forward(self, ids):
        text = ",".join(map(str, ids.tolist()))  # fault
        return ids * 0 if PATTERN.search(text) is not None else ids + 1  # fault


def example():
    return (torch.tensor([3, 8, 12]),), {}


def others():
    return [
        ((torch.tensor([901, 8, 12]),), {}),
    ]
