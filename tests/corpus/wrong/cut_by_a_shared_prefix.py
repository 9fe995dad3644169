"""The common prefix of two sequences of ids is counted by comparing them one by one."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, a, b):
        shared = 0
        while shared < 4 and a[shared] == b[shared]:  # fault
            shared += 1
        return a[shared:].sum() - b[:shared].sum()  # fault


def example():
    return (
        torch.tensor([1, 2, 3, 4]),
        torch.tensor([1, 2, 9, 9]),
    ), {}


def others():
    return [
        (
            (
                torch.tensor([1, 2, 3, 4]),
                torch.tensor([1, 2, 3, 9]),
            ),
            {},
        ),
        (
            (
                torch.tensor([5, 2, 3, 4]),
                torch.tensor([1, 2, 3, 9]),
            ),
            {},
        ),
    ]
