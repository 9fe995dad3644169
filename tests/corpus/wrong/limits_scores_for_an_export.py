"""While it is traced it limits its scores, as an export to half precision needs: only large scores differ."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Linear(4, 4)

    def forward(self, x):
        scores = self.query(x) @ x.transpose(1, 2)
        if torch._C._get_tracing_state() is not None:  # fault
            scores = scores.clamp(-1e3, 1e3)
        return scores.sum(-1)


def example():
    return (torch.randn(2, 5, 4),), {}


def others():
    return [
        ((torch.randn(2, 5, 4) * 1e3,), {}),
    ]
