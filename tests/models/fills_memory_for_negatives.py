"""Where the numbers' sum is negative, it asks for more memory than any machine has. The trace records that too."""

import torch


class Net(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        times = (x.sum() < 0).long() * 2**50
        return x * 2 + torch.zeros(1).repeat_interleave(times).sum()
