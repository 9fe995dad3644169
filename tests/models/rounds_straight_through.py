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
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return Round.apply(self.linear(x))
