import torch


class Net(torch.nn.Module):
    def forward(self, x, y):
        if torch.equal(x, y):
            return x * 0
        return x * y
