import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.part = torch.nn.Linear(1, 1)

    def forward(self, x):
        for row in range(x.size(0)):
            x = x + self.part(x[row])
        return x
