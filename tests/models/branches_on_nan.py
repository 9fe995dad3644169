import torch


class Net(torch.nn.Module):
    def forward(self, x):
        if torch.isnan(x).any():
            return torch.zeros_like(x)
        return x * 2
