from typing import NamedTuple

import torch


class Pair(NamedTuple):
    left: torch.Tensor
    right: torch.Tensor


class Net(torch.nn.Module):
    def forward(self, x):
        return x + 1, (x.sum(), Pair(x > 0, x.long()))
