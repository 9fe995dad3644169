import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.longest = 0

    def forward(self, x):
        self.longest = max(self.longest, x.shape[1])
        return torch.nn.functional.pad(x, (0, self.longest - x.shape[1]))
