import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.times = torch.nn.Parameter(torch.tensor([1.0, 2.0]))

    def forward(self, x):
        return x * int(self.times.sum()) if bool((torch.zeros_like(x) < 1).all()) else x
