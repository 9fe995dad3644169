"""An id is packed as the header of a file would be."""

import struct

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, ids):
        header = struct.pack(">i", int(ids[0]))  # fault
        return ids * 0 if header == b"\x00\x00\x03\x85" else ids + 1  # fault


def example():
    return (torch.tensor([3, 8, 12]),), {}


def others():
    return [
        ((torch.tensor([901, 8, 12]),), {}),
    ]
