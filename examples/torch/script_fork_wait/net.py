import torch


def scaled(a, b: int):
    return a * b


def bar(a):
    future = torch.jit.fork(scaled, a, b=2)
    return torch.jit.wait(future) + a
