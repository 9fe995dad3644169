import torch


class Rounded(torch.autograd.Function):
    """A straight-through estimator: backward does as if nothing had been rounded."""

    @staticmethod
    def forward(_ctx, x):
        return x.round()

    @staticmethod
    def backward(_ctx, gradient):
        return gradient


def forward(x):
    return Rounded.apply(x)
