import torch


def rounded(x):
    return torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)
