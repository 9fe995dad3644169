import torch

LAST = {"doubled": lambda x: x * 2}


def clipped(x):
    if bool(x.sum() > 0):
        return x * 2
    return x - 1


class Net(torch.nn.Module):
    def forward(self, x):
        return LAST["doubled"](clipped(x))
