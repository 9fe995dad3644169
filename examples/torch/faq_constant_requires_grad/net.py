import torch

linear = torch.nn.Linear(3, 3)


def method_of_a_module(x):
    return linear(x)
