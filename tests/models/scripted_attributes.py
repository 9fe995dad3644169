"""A scripted part that keeps numbers and names beside its tensors, and uses a tensor that is no part of the model."""

import torch

STEPS = torch.arange(4)


class Inner(torch.nn.Module):
    names: list[str]

    def __init__(self):
        super().__init__()
        self.scale = 0.5
        self.names = [f"name {number}" for number in range(100)]
        self.table = {"one": torch.ones(3)}
        self.register_buffer("offset", torch.ones(4))

    def forward(self, x):
        return x * self.scale + self.offset + len(self.names) + self.table["one"].sum()


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.jit.script(Inner())

    def forward(self, x):
        return self.inner(x) + STEPS
