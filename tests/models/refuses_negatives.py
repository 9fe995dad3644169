import torch


class Net(torch.nn.Module):
    def forward(self, x):
        if (x < 0).any():
            raise ValueError("no negative numbers")
        return x.sqrt()
