import torch


class Net(torch.nn.Module):
    def forward(self, x):
        if x.max() > 1000:
            return x * 0
        return x * 2


class Slightly(torch.nn.Module):
    """Its sides differ by less than a usual tolerance, and by far more than rounding."""

    def forward(self, x):
        return x * 2.000006 if x.max() > 1000 else x * 2
