"""The first padding position is looked for with Python's index."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, ids):
        listed = [*ids.tolist(), 0]  # fault
        return ids[: listed.index(0)].sum()  # fault


def example():
    return (torch.tensor([4, 5, 0, 7]),), {}


def others():
    return [
        ((torch.tensor([4, 5, 6, 7]),), {}),
        ((torch.tensor([4, 0, 6, 7]),), {}),
    ]
