"""One id out of a hundred, which stands in an attribute, ends the text."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.end = 57
        self.table = nn.Embedding(100, 4)

    def forward(self, ids):
        last = ids[0, -1].item()  # fault
        if last == self.end:  # fault
            return self.table(ids) * 0
        return self.table(ids)


def example():
    return (torch.tensor([[3, 8, 12]]),), {}


def others():
    return [((torch.tensor([[3, 8, 57]]),), {}), ((torch.tensor([[3, 99, 0]]),), {})]
