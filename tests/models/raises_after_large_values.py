import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.broken = False

    def forward(self, x):
        if self.broken:
            raise ValueError("broken")
        if x.abs().max() > 30:
            self.broken = True
        return x + 1
