"""Ids are joined to a word of characters."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, ids):
        word = "".join(chr(one) for one in ids.tolist())  # fault
        return ids * 0 if word == "hey" else ids + 1  # fault


def example():
    return (torch.tensor([3, 8, 12]),), {}


def others():
    return [
        ((torch.tensor([104, 101, 121]),), {}),
    ]
