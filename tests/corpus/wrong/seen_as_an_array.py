"""numpy takes the tensor for an array by itself, and computes with it."""

import numpy as np
import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, x):
        steep = np.diff(np.asarray(x)).max()  # fault
        return x * float(steep)  # fault


def example():
    return (torch.tensor([1.0, 2.0, 4.0]),), {}


def others():
    return [
        ((torch.tensor([1.0, 5.0, 4.0]),), {}),
        ((torch.tensor([0.0, 1.0, 2.0]),), {}),
    ]
