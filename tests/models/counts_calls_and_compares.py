import itertools

import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        if self.calls > 123456 and x.sum() < 0:
            return -x
        return x


class Logs(Net):
    def forward(self, x):
        self.calls += 1
        if self.calls % 1000 == 0:
            print("calls:", self.calls)
        return x


class Now(Net):
    def forward(self, x):
        self.calls += 1
        return -x if self.calls % 77 == 30 else x


class Iterator(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.numbers = itertools.count()

    def forward(self, x):
        return x if next(self.numbers) < 300 else -x


class Steps(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.steps += 1
        return torch.where(self.steps > 5000, -x, x)
