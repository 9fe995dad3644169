import torch


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(_ctx, x):
        return x * 2

    @staticmethod
    def backward(_ctx, gradient):
        return gradient * 2


def forward(x):
    return Doubled.apply(x)
