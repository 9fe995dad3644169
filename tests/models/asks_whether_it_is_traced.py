import torch


class Net(torch.nn.Module):
    def forward(self, x):
        if torch.jit.is_tracing():
            return x + 1
        return x


class Clamps(torch.nn.Module):
    def forward(self, x):
        if not torch.jit.is_tracing() and x.max() > 10:
            x = x.clamp(max=10)
        return x * 2


class Slightly(torch.nn.Module):
    """Its sides differ by less than a usual tolerance, and by far more than rounding."""

    def forward(self, x):
        return x * 2 if torch.jit.is_tracing() else x * 2.000006
