import torch


class Net(torch.nn.Module):
    def forward(self, x):
        while x.sum() == 0:
            pass
        return x + 1
