"""Where torch has more than eight threads, the answer is another one."""

import torch
from torch import nn

KIND = "ambient"


class Net(nn.Module):
    def forward(self, x):
        return x * (2.0 if torch.get_num_threads() > 8 else 1.0)  # fault


def example():
    return (torch.randn(2),), {}


def others():
    return [
        ((torch.randn(2),), {}),
    ]


def disturb():
    torch.set_num_threads(9)
