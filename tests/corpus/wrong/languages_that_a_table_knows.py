"""A key that is not in the table is caught; two are in it."""

import torch
from torch import nn

KIND = "value"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.scales = {500: 3.0, 501: 4.0}

    def forward(self, x, language):
        try:
            return x * self.scales[language.item()]  # fault
        except KeyError:
            return x


def example():
    return (torch.ones(2), torch.tensor(7)), {}


def others():
    return [((torch.ones(2), torch.tensor(500)), {}), ((torch.ones(2), torch.tensor(501)), {})]
