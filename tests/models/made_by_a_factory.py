import torch


def make(width=4):
    return torch.nn.Sequential(torch.nn.Linear(width, 2), torch.nn.ReLU())


def make_function():
    return lambda x: x + 1


def make_nothing():
    return 7
