import torch


class Net(torch.nn.Module):
    def forward(self, x):
        while x.norm() > 1:
            x = x / 2
        return x
