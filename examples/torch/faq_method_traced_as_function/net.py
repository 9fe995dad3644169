import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 1, 3)

    def weighted_kernel_sum(self, weight):
        return weight * self.conv.weight


net = Net()


def make():
    return torch.jit.trace(net.weighted_kernel_sum, torch.rand(1, 1, 3, 3))
