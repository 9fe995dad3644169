import torch


@torch.jit.script
class Window:
    def __init__(self, low: float, high: float):
        self.low = low
        self.high = high

    def cut(self, x: torch.Tensor) -> torch.Tensor:
        if bool(x.sum() > 0):
            return torch.clamp(x, self.low, self.high)
        return x


class Net(torch.nn.Module):
    def forward(self, x):
        return Window(-1.0, 1.0).cut(x)
