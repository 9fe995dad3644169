"""Late steps of a diffusion add nothing more."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, x, step):
        match int(step):  # fault
            case 0:
                return x
            case late if late > 900:
                return x * 0.1
        return x * 0.9


def example():
    return (
        torch.randn(2),
        torch.tensor(500),
    ), {}


def others():
    return [
        (
            (
                torch.randn(2),
                torch.tensor(0),
            ),
            {},
        ),
        (
            (
                torch.randn(2),
                torch.tensor(950),
            ),
            {},
        ),
    ]
