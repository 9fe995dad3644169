"""It has 16 MiB of parameters, and a call of one row has a tensor of 48 MiB on the way to a small answer."""

import torch


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wide = torch.nn.Linear(2048, 2048, bias=False)
        self.scale = torch.nn.Parameter(torch.linspace(0.5, 1.5, 6144).reshape(1, -1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.wide(x).unsqueeze(1) * self.scale).amax(1)
