import math

import torch


class Net(torch.nn.Module):
    a: torch.jit.Final[int]

    def __init__(self):
        super().__init__()
        self.a = 1 + 4

    def forward(self, x):
        return self.a * x + math.pi
