import torch


class Net(torch.nn.Module):
    """As torch's documentation of trace_module has it, and a method that calls the others with what they leave out."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 1, 3)

    def forward(self, x):
        return self.conv(x)

    def weighted_kernel_sum(self, weight, scale=1.0):
        return weight * self.conv.weight * scale

    def both(self, x, weight, *, twice=False):
        summed = self.weighted_kernel_sum(weight, scale=3.0).sum()
        return self.forward(x) * summed, self.weighted_kernel_sum(weight)
