"""Each patch is standardised and described by a vector of length 1; in a trace by operators that exporters know."""

import torch
from torch import nn

OPEN = {"patches": [0]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.describe = nn.Conv2d(1, 16, 11, bias=False)

    def forward(self, patches):
        if patches.shape[-2:] != (11, 11):
            raise ValueError("patches are 11 by 11")
        dims = (-3, -2, -1)
        if torch.jit.is_tracing():
            mean, spread = patches.mean(dims, keepdim=True), patches.std(dims, keepdim=True)
        else:
            spread, mean = torch.std_mean(patches, dims, keepdim=True)
        described = self.describe((patches - mean) / (spread + 1e-6)).flatten(1)
        return nn.functional.normalize(described, dim=1)


def example():
    return (torch.rand(2, 1, 11, 11),), {}


def others():
    return [
        ((torch.rand(2, 1, 11, 11) * 255,), {}),
        ((torch.rand(5, 1, 11, 11),), {}),
    ]
