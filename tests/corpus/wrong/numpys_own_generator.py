"""A generator of numpy, made at each call from fresh entropy."""

import numpy as np
import torch
from torch import nn

KIND = "random"


class Net(nn.Module):
    def forward(self, x):
        noise = np.random.default_rng().normal(size=2)  # fault
        return x + torch.from_numpy(noise).float()  # fault


def example():
    return (torch.randn(2),), {}


def others():
    return [
        ((torch.randn(2),), {}),
    ]
