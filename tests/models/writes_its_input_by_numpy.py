import torch


class Net(torch.nn.Module):
    def forward(self, x):
        y = x * 2
        x.numpy()[...] = 0
        return y
