"""As many padding tokens are put before the prompt as it lacks to twelve."""

import torch
import torch.nn.functional as F
from torch import nn

KIND = "size"


class Net(nn.Module):
    def forward(self, ids):
        lacking = max(0, 12 - len(ids[0]))  # fault
        return F.pad(ids, (lacking, 0), value=1).float().mean(1)  # fault


def example():
    return (torch.tensor([[3, 4, 5]]),), {}


def others():
    return [
        ((torch.tensor([[3, 4, 5, 6, 7]]),), {}),
        ((torch.arange(14)[None],), {}),
    ]
