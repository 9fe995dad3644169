import torch


@torch.jit.script
def larger(x, y):
    if x.max() > y.max():
        r = x
    else:
        r = y
    return r


def bar(x, y, z):
    return larger(x, y) + z
