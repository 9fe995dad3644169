import torch
from torch.nn import functional


class Net(torch.nn.Module):
    """Takes pictures whose sides are multiples of 8 alone."""

    def forward(self, x):
        return x + functional.interpolate(functional.max_pool2d(x, 8), scale_factor=8)
