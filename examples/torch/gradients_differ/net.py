import torch


def scaled(x):
    with torch.no_grad():
        scale = x.abs().sum()
    return x * scale
