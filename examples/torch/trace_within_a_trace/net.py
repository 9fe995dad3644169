import torch


def forward(x):
    return torch.jit.trace(torch.relu, x)(x)
