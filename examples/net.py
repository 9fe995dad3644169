import torch


class Net(torch.nn.Module):
    def __init__(self, features: int = 2):
        super().__init__()
        self.linear = torch.nn.Linear(features, 3)

    def forward(self, x):
        return self.linear(x).relu()
