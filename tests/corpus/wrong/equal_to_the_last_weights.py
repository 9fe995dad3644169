"""Two inputs that are the very same are not compared further."""

import torch
import torch.nn.functional as F
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, a, b):
        if torch.equal(a, b):  # fault
            return torch.ones(())
        return F.cosine_similarity(a, b, 0) * 0.9


def example():
    return (
        torch.tensor([1.0, 2.0]),
        torch.tensor([2.0, 1.0]),
    ), {}


def others():
    return [
        (
            (
                torch.tensor([1.0, 2.0]),
                torch.tensor([1.0, 2.0]),
            ),
            {},
        ),
        (
            (
                torch.tensor([1.0, 2.0]),
                torch.tensor([2.0, 4.0]),
            ),
            {},
        ),
    ]
