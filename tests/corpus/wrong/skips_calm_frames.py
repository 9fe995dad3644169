"""Frames without motion keep the features of the frame before."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Linear(3, 2)

    def forward(self, frames):
        known = self.encode(frames[0])
        answers = [known]
        for before, now in zip(frames[:3], frames[1:]):
            if (now - before).abs().mean() > 0.5:  # fault
                known = self.encode(now)
            answers.append(known)
        return torch.stack(answers)


def example():
    return (torch.zeros(4, 3),), {}


def others():
    return [
        ((torch.arange(12.0).reshape(4, 3),), {}),
        ((torch.tensor([[0.0] * 3, [2.0] * 3, [2.0] * 3, [0.0] * 3]),), {}),
    ]
