"""In a nested dict, the mean over tokens divides by the example's number."""

import torch
from torch import nn

KIND = "size"


class Net(nn.Module):
    def forward(self, batch):
        tokens = batch["text"]["tokens"]
        length = len(tokens[0])  # fault
        return {"mean": tokens.sum(1) / length, "last": tokens[:, -1]}  # fault


def example():
    return ({"text": {"tokens": torch.randn(2, 4, 3)}, "other": {"scale": torch.ones(1)}},), {}


def others():
    return [
        (({"text": {"tokens": torch.randn(2, 6, 3)}, "other": {"scale": torch.ones(1)}},), {}),
        (({"text": {"tokens": torch.randn(1, 2, 3)}, "other": {"scale": torch.ones(1)}},), {}),
    ]
