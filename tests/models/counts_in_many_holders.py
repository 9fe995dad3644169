"""Each model doubles its answers after 3000 calls, and counts them in another kind of holder."""

import array
import ctypes
import io
import itertools
import mmap
import random
import threading
from collections import deque

import numpy as np
import torch


class Numbers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = np.zeros(1)

    def forward(self, x):
        self.calls += 1
        return x * (2.0 if self.calls[0] > 3000 else 1.0)


class Integers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = array.array("i", [0])

    def forward(self, x):
        self.calls[0] += 1
        return x * (2.0 if self.calls[0] > 3000 else 1.0)


class Text(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = io.StringIO()

    def forward(self, x):
        self.calls.write("x")
        return x * (2.0 if self.calls.tell() > 3000 else 1.0)


class Items(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = deque()

    def forward(self, x):
        self.calls.append(1)
        return x * (2.0 if len(self.calls) > 3000 else 1.0)


class Keys(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = {}

    def forward(self, x):
        self.calls[len(self.calls)] = 1
        return x * (2.0 if len(self.calls) > 3000 else 1.0)


class Default(torch.nn.Module):
    def forward(self, x, calls=[]):
        calls.append(1)
        return x * (2.0 if len(calls) > 3000 else 1.0)


class OfAFunction(torch.nn.Module):
    def forward(self, x):
        function = type(self).forward
        function.calls = getattr(function, "calls", 0) + 1
        return x * (2.0 if function.calls > 3000 else 1.0)


class Generator(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gains = None

    def make(self):
        yield from itertools.repeat(1.0, 3000)
        while True:
            yield 2.0

    def forward(self, x):
        if self.gains is None:
            self.gains = self.make()
        return x * next(self.gains)


class Draws(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.generator = random.Random(0)

    def forward(self, x):
        return x * (2.0 if self.generator.random() > 0.9995 else 1.0)


class LogsText(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.log = io.StringIO()

    def forward(self, x):
        self.log.write(f"{tuple(x.shape)} ")
        return x * 2


class LogsItems(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.log = {}

    def forward(self, x):
        self.log[len(self.log)] = tuple(x.shape)
        return x * 2


class LogsNumbers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.log = np.zeros(2, dtype=np.uint8)

    def forward(self, x):
        self.log += 1
        return x * 2


class OfC(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = ctypes.c_int(0)

    def forward(self, x):
        self.calls.value += 1
        return x * (2.0 if self.calls.value > 3000 else 1.0)


class LogsOfC(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = ctypes.c_int(0)

    def forward(self, x):
        self.calls.value += 1
        return x * 2.0


MEMORY = mmap.mmap(-1, 16)
SLOTS = threading.Semaphore(3000)


class Memory(torch.nn.Module):
    def forward(self, x):
        MEMORY[0] = (MEMORY[0] + 1) % 200
        return x * (2.0 if MEMORY[0] > 100 else 1.0)


class Slots(torch.nn.Module):
    def forward(self, x):
        return x * (1.0 if SLOTS.acquire(blocking=False) else 2.0)
