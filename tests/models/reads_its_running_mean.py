import torch


class Net(torch.nn.Module):
    """In train mode, what other calls were asked shows after the sixtieth."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(4)

    def forward(self, x):
        y = self.norm(x)
        return y if self.norm.num_batches_tracked < 60 else y + self.norm.running_mean
