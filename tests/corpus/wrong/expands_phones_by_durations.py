"""Every phone is repeated by its duration, in a loop of Python."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, phones, durations):
        frames = [phones[i].expand(int(d), -1) for i, d in enumerate(durations)]  # fault
        return torch.cat(frames)


def example():
    return (
        torch.randn(3, 2),
        torch.tensor([1, 2, 1]),
    ), {}


def others():
    return [
        (
            (
                torch.randn(3, 2),
                torch.tensor([2, 1, 1]),
            ),
            {},
        ),
        (
            (
                torch.randn(3, 2),
                torch.tensor([3, 2, 4]),
            ),
            {},
        ),
    ]
