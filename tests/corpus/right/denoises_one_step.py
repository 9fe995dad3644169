"""A step of a diffusion backwards in time: it adds noise, but at the last step. The artifact draws the same."""

import torch
from torch import nn

OPEN = {"x": [0], "t": [0]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.denoiser = nn.Linear(5, 4)
        self.register_buffer("betas", torch.linspace(1e-4, 0.02, 10))

    def forward(self, x, t):
        beta = self.betas[t].unsqueeze(-1)
        predicted = self.denoiser(torch.cat([x, t.unsqueeze(-1).float()], -1))
        mean = (x - beta * predicted) / (1 - beta).sqrt()
        return mean + beta.sqrt() * torch.randn_like(x) * (t > 0).unsqueeze(-1)


def example():
    return (torch.randn(2, 4), torch.tensor([0, 7])), {}


def others():
    return [
        ((torch.randn(5, 4), torch.tensor([0, 1, 2, 9, 4])), {}),
    ]
