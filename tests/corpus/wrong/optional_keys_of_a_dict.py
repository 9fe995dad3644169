"""A dict with a mask is masked, one without is not."""

import torch
from torch import nn

KIND = "size"


class Net(nn.Module):
    def forward(self, batch):
        if "mask" in batch:  # fault
            return batch["x"] * batch["mask"]
        return batch["x"]


def example():
    return ({"x": torch.randn(2), "scale": torch.ones(2)},), {}


def others():
    return [
        (({"x": torch.randn(2), "mask": torch.zeros(2)},), {}),
    ]
