import torch


def opposite(x):
    return -x


@torch.jit.script
def absolute(x):
    if bool(x.sum() < 0):
        return opposite(x)
    return x


class Net(torch.nn.Module):
    def forward(self, x):
        return absolute(x)
