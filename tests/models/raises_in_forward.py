import torch


class Net(torch.nn.Module):
    def forward(self, x):
        return self.inner(x)

    def inner(self, x):
        return x @ x
