import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.mask = None

    def forward(self, x):
        if self.mask is None:
            self.mask = torch.ones(x.shape[-1], x.shape[-1]).tril()
        return x * self.mask
