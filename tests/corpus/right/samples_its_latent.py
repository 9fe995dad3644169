"""A variational autoencoder that samples in eval mode. The artifact draws the same."""

import torch
from torch import nn

OPEN = {"x": [0]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(4, 4)
        self.decoder = nn.Linear(2, 4)

    def forward(self, x):
        mean, log_variance = self.encoder(x).chunk(2, -1)
        latent = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        return self.decoder(latent)


def example():
    return (torch.randn(2, 4),), {}


def others():
    return [
        ((torch.randn(5, 4),), {}),
    ]
