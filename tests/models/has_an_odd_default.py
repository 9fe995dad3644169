import torch


class Net(torch.nn.Module):
    def forward(self, x, dtype: torch.dtype = torch.float64, times: int = 2, scale: float = 3.0):
        for _ in range(times):
            x = x * scale
        return x.to(dtype)
