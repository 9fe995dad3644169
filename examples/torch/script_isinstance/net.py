from typing import Any

import torch


class Net(torch.nn.Module):
    def forward(self, given: Any):
        total = torch.zeros(2)
        if torch.jit.isinstance(given, list[torch.Tensor]):
            for t in given:
                total = total + t.clamp(0, 0.5)
        elif torch.jit.isinstance(given, dict[str, torch.Tensor]):
            for t in given.values():
                total = total - t
        return total
