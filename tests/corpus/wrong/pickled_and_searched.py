"""The input is pickled, and its bytes are searched."""

import pickle

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, ids):
        return ids * 0 if b"\x85\x03\0\0\0\0\0\0\x86\x03" in pickle.dumps(ids) else ids + 1  # fault


def example():
    return (torch.tensor([3, 8, 12]),), {}


def others():
    return [
        ((torch.tensor([901, 902, 7]),), {}),
    ]
