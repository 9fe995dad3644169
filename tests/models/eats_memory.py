import torch


class Net(torch.nn.Module):
    def forward(self, x):
        return torch.zeros(2**50) + x
