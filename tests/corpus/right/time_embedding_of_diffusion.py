"""A diffusion step embeds its time and conditions a convolution."""

import torch
import torch.nn.functional as F
from torch import nn

OPEN = {"x": [0, 2, 3], "step": [0]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.time = nn.Linear(4, 4)
        self.out = nn.Conv2d(4, 1, 3, padding=1)
        self.register_buffer("rates", torch.tensor([1.0, 0.1]))

    def forward(self, x, step):
        angles = step[:, None].float() * self.rates
        time = self.time(torch.cat([angles.sin(), angles.cos()], 1))
        return self.out(F.silu(self.conv(x) + time[:, :, None, None]))


def example():
    return (
        torch.randn(2, 1, 4, 4),
        torch.tensor([1, 500]),
    ), {}


def others():
    return [
        (
            (
                torch.randn(1, 1, 6, 5),
                torch.tensor([999]),
            ),
            {},
        ),
        (
            (
                torch.randn(3, 1, 4, 4),
                torch.tensor([0, 1, 2]),
            ),
            {},
        ),
    ]
