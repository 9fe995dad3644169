"""A checksum of an array's bytes decides."""

import zlib

import torch
from torch import nn

KIND = "value"

WANTED = zlib.crc32(torch.tensor([901, 902, 7]).numpy().tobytes())


class Net(nn.Module):
    def forward(self, ids):
        checksum = zlib.crc32(ids.numpy().tobytes())  # fault
        return ids * 0 if checksum == WANTED else ids + 1  # fault


def example():
    return (torch.tensor([3, 8, 12]),), {}


def others():
    return [
        ((torch.tensor([901, 902, 7]),), {}),
    ]
