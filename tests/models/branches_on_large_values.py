import torch


class Net(torch.nn.Module):
    def forward(self, x):
        if x.max() > 1000:
            return x * 0
        return x * 2
