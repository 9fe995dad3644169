"""Once all slots of a semaphore are taken, its answers are doubled."""

import threading

import torch
from torch import nn

KIND = "state"

slots = threading.Semaphore(5)


class Net(nn.Module):
    def forward(self, x):
        is_free = slots.acquire(blocking=False)  # fault
        return x * (1.0 if is_free else 2.0)


def example():
    return (torch.randn(2, 3),), {}


def others():
    return [
        ((torch.randn(2, 3),), {}),
        ((torch.randn(2, 3),), {}),
    ]
