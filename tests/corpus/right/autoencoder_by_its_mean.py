"""A variational autoencoder that decodes the mean in eval mode."""

import torch
from torch import nn

OPEN = {"x": [0]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(6, 4)
        self.decoder = nn.Linear(2, 6)

    def forward(self, x):
        mean, log_variance = self.encoder(x).chunk(2, -1)
        latent = mean + torch.randn_like(mean) * (0.5 * log_variance).exp() if self.training else mean
        return self.decoder(latent), mean, log_variance


def example():
    return (torch.randn(2, 6),), {}


def others():
    return [
        ((torch.randn(1, 6),), {}),
        ((torch.randn(9, 6),), {}),
    ]
