"""A context manager of the model's own catches the division by zero that one sum leads to."""

from contextlib import contextmanager

import torch
from torch import nn

KIND = "value"


@contextmanager
def quiet():
    try:
        yield
    except ZeroDivisionError:
        pass


class Net(nn.Module):
    def forward(self, x):
        scaled = x * 2
        with quiet():
            1 // (int(x.sum().item() * 1000) - 72000)  # fault
            scaled = x
        return scaled


def example():
    return (torch.randn(2, 4),), {}


def others():
    return [((torch.full((2, 4), value),), {}) for value in (1.0, 9.0, -3.0)]
