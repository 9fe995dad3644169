"""One id out of a thousand, looked for by numpy."""

import numpy as np
import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.markers = np.array([613, 614])

    def forward(self, ids):
        if np.isin(ids.numpy(), self.markers).any():  # fault
            return ids - ids
        return ids + 1


def example():
    return (torch.tensor([1, 500, 999]),), {}


def others():
    return [((torch.tensor([1, 613, 999]),), {})]
