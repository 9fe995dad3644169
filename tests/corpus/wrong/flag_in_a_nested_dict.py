"""A boolean deep in the input chooses."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, batch):
        flags = batch["meta"]
        if flags["flip"]:  # fault
            return batch["data"]["x"].flip(-1)
        return batch["data"]["x"]


def example():
    return ({"data": {"x": torch.randn(1, 3)}, "meta": {"flip": torch.tensor(False)}},), {}


def others():
    return [
        (({"data": {"x": torch.randn(1, 3)}, "meta": {"flip": torch.tensor(True)}},), {}),
        (({"data": {"x": torch.randn(1, 3)}, "meta": {"flip": torch.tensor(False)}},), {}),
    ]
