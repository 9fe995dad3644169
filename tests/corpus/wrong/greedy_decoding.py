"""Decoding stops at the end token, after the example's number of steps."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.next = nn.Linear(4, 4)

    def forward(self, state):
        said = []
        for _ in range(6):
            state = torch.tanh(self.next(state) * 3)
            said.append(state.argmax())
            if said[-1] == 0:  # fault
                break
        return torch.stack(said)


def example():
    return (torch.tensor([1.0, 0.0, 0.0, 0.0]),), {}


def others():
    return [
        ((torch.tensor([0.0, 0.0, 1.0, 0.0]),), {}),
        ((torch.tensor([0.0, 5.0, 0.0, 0.0]),), {}),
        ((torch.tensor([-9.0, 2.0, 0.0, 5.0]),), {}),
        ((torch.tensor([9.0, -2.0, 3.0, -5.0]),), {}),
    ]
