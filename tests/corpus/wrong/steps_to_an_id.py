"""A loop counts up to an id, and the count is written."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, ids):
        steps = 0
        while steps < ids[0].item():  # fault
            steps += 1
        return ids * 0 if f"{steps} steps" == "501 steps" else ids + 1  # fault


def example():
    return (torch.tensor([3, 8, 12]),), {}


def others():
    return [
        ((torch.tensor([501, 8, 12]),), {}),
    ]
