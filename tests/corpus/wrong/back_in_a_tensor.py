"""Values pass through an array into a new tensor, and are read out of it again."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, ids):
        tripled = torch.from_numpy(ids.numpy() * 3)  # fault
        return ids * 0 if str(int(tripled[0])) == "1503" else ids + 1  # fault


def example():
    return (torch.tensor([3, 8, 12]),), {}


def others():
    return [
        ((torch.tensor([501, 8, 12]),), {}),
    ]
