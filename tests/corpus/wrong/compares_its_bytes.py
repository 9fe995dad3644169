"""Ids become bytes."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, ids):
        text = bytes(one % 256 for one in ids.tolist())  # fault
        return ids * 0 if text.decode("latin-1").startswith("he") else ids + 1  # fault


def example():
    return (torch.tensor([3, 8, 12]),), {}


def others():
    return [
        ((torch.tensor([104, 101, 121]),), {}),
    ]
