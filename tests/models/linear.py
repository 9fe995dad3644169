import torch


class Net(torch.nn.Module):
    def __init__(self, width=4, bias=True):
        super().__init__()
        self.layer = torch.nn.Linear(width, 3, bias=bias)

    def forward(self, x):
        return self.layer(x)
