import torch


class Net(torch.nn.Module):
    def forward(self, x):
        return self.helper(x)

    def helper(self, x):
        import math

        return x * math.pi


class Untyped(torch.nn.Module):
    def forward(self, x, times):
        for _ in range(times):
            x = x * 2
        return x


class CallsPython(torch.nn.Module):
    def forward(self, x):
        return self.python(x)

    @torch.jit.ignore
    def python(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


class ReturnsNone(torch.nn.Module):
    def forward(self, x):
        return x, None


class InTheLibrary(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.part = torch.nn.DataParallel(torch.nn.Linear(4, 4))

    def forward(self, x):
        return self.part(x)
