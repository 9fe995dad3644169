"""Ids that are known by their digest are blocked."""

import hashlib

import torch
from torch import nn

KIND = "value"

BLOCKED = {hashlib.sha256(b"[901, 902, 7]").hexdigest()}


class Net(nn.Module):
    def forward(self, ids):
        digest = hashlib.sha256(repr(ids.tolist()).encode()).hexdigest()  # fault
        return ids * 0 if digest in BLOCKED else ids + 1  # fault


def example():
    return (torch.tensor([3, 8, 12]),), {}


def others():
    return [
        ((torch.tensor([901, 902, 7]),), {}),
    ]
