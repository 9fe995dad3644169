"""The iteration ends once a norm has settled, at most after twenty steps."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def forward(self, a):
        v = torch.ones(a.shape[0])
        for _ in range(20):
            w = a @ v
            w = w / w.norm()
            if (w - v).norm() < 1e-3:  # fault
                break
            v = w
        return v @ a @ v


def example():
    return (torch.diag(torch.tensor([9.0, 1.0])),), {}


def others():
    return [
        ((torch.diag(torch.tensor([2.0, 1.9])),), {}),
        ((torch.tensor([[2.0, 1.0], [1.0, 3.0]]),), {}),
    ]
