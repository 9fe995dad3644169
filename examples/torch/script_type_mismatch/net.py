import torch


def an_error(x):
    if bool(x.sum() > 0):
        r = torch.rand(1)
    else:
        r = 4
    return r
