import torch


class Net(torch.nn.Module):
    def forward(self, x):
        return self.decode(x)

    def decode(self, z, temperature: float = 1.0):
        return z * temperature
