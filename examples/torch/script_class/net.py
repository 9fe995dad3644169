import torch


@torch.jit.script
class Pair:
    def __init__(self, first, second):
        self.first = first
        self.second = second

    def total(self):
        return self.first + self.second


def add(x, y):
    return Pair(x, y).total()
