import torch


class Noise(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.dropout(x, 0.5)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.noise = Noise()

    def forward(self, x):
        return x, self.noise(x)
