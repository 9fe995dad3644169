import torch


class Net(torch.nn.Module):
    def forward(self, x: torch.Tensor, k: int | float) -> torch.Tensor:
        if isinstance(k, int):
            return x + k
        return x * 100
