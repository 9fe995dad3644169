import torch


class Net(torch.nn.Module):
    def forward(self, x):
        size = int(x[0, 0])
        try:
            return x.select(1, size)
        except IndexError:
            return x.sum(1)
