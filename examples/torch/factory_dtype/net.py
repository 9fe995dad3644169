import torch


def mask(x):
    return x + torch.zeros(3, dtype=x.dtype, device=x.device)
