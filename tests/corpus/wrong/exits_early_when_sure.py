"""A confident first head ends the computation."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 3)
        self.second = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 3))

    def forward(self, x):
        answer = self.first(x).softmax(-1)
        if answer.max() > 0.9:  # fault
            return answer
        return self.second(x).softmax(-1)


def example():
    return (torch.zeros(1, 2),), {}


def others():
    return [
        ((torch.tensor([[40.0, -30.0]]),), {}),
        ((torch.tensor([[0.1, 0.0]]),), {}),
        ((torch.tensor([[-40.0, 30.0]]),), {}),
    ]
