"""torch's own encoder and decoder, which ask whether the mask that they get is the causal one."""

import torch
from torch import nn

OPEN = {"source": [0, 1], "target": [0, 1]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        self.translate = nn.Transformer(8, 2, 1, 1, 16, batch_first=True)

    def forward(self, source, target):
        mask = nn.Transformer.generate_square_subsequent_mask(target.size(1))
        return self.translate(self.embed(source), self.embed(target), tgt_mask=mask)


def example():
    return (torch.randint(0, 20, (2, 7)), torch.randint(0, 20, (2, 5))), {}


def others():
    return [
        ((torch.randint(0, 20, (1, 7)), torch.randint(0, 20, (1, 5))), {}),
        ((torch.randint(0, 20, (3, 12)), torch.randint(0, 20, (3, 20))), {}),
    ]
