import torch


class Net(torch.nn.Module):
    def forward(self, x):
        return x + torch.randn_like(x) * 1e-6
