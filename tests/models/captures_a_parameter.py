import torch

weight = torch.nn.Parameter(torch.ones(4))


def scale(x):
    return x * weight
