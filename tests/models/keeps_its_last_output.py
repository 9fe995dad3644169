import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.shown = None

    def forward(self, x):
        self.shown = x * 2
        return x + 1
