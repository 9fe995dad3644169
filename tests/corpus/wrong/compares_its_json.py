"""All ids are written as JSON, and compared with a line that was kept."""

import json

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, ids):
        return ids * 0 if json.dumps(ids.tolist()) == "[901, 902, 7]" else ids + 1  # fault


def example():
    return (torch.tensor([3, 8, 12]),), {}


def others():
    return [
        ((torch.tensor([901, 902, 7]),), {}),
    ]
