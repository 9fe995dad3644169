import torch


class Round(torch.autograd.Function):
    """As quantisation is trained: the way back goes past the rounding."""

    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Net(torch.nn.Module):
    """torch.jit.trace cannot save a function of Python's, so that the operators stand in for it."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        y = self.linear(x)
        return y.round() if torch.jit.is_tracing() else Round.apply(y)
