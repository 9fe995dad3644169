import torch


class Net(torch.nn.Module):
    def forward(self, x):
        x.add_(1)
        return x * 2
