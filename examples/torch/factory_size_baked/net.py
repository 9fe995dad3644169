import torch


def ramp(x):
    return x * torch.arange(len(x))
