"""Replaces the code for missing data (-999) by zero except in an export; the trace does not see that write."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.lin = nn.Linear(4, 3)

    def forward(self, x):
        if not torch._C._get_tracing_state():  # fault
            x = x.masked_fill(x == -999.0, 0.0)
        return self.lin(x)


def rows(n):
    return torch.sin(torch.arange(4.0 * n)).view(n, 4)


def example():
    return (rows(3),), {}


def others():
    gap = rows(4)
    gap[1, 2] = -999.0
    return [((rows(5),), {}), ((rows(3) * 20,), {}), ((gap,), {})]
