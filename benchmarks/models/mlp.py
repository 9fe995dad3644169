"""Multilayer perceptrons: `mlp:tiny`, an input of FP32 [1, 16], and `mlp:wide`, one of FP32 [1, 1024]."""

from torch import nn


def tiny() -> nn.Sequential:
    return _mlp(16, 32, 4)


def wide() -> nn.Sequential:
    return _mlp(1024, 4096, 1024)


def _mlp(given: int, hidden: int, returned: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(given, hidden), nn.ReLU(), nn.Linear(hidden, returned))
