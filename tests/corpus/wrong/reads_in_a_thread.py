"""A thread reads a maximum, and the branch is taken after it has ended."""

import threading

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, ids):
        found = []
        worker = threading.Thread(target=lambda: found.append(int((ids * 3).max())))  # fault
        worker.start()
        worker.join()
        return ids * 0 if str(found[0]) == "1503" else ids + 1  # fault


def example():
    return (torch.tensor([3, 8, 12]),), {}


def others():
    return [
        ((torch.tensor([501, 8, 12]),), {}),
    ]
