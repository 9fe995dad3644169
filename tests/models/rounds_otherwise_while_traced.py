"""It has 192 MiB of parameters, and multiplies in another order while it is traced, which rounds otherwise."""

import torch


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.linspace(-1.0, 1.0, 6144 * 8192).reshape(6144, 8192))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if torch.jit.is_tracing():
            return (torch.nn.functional.linear(x, self.weight) * 0.1) * 0.3
        return torch.nn.functional.linear(x, self.weight) * (0.1 * 0.3)
