import torch


class Net(torch.nn.Module):
    seen: list[int]

    def __init__(self):
        super().__init__()
        self.seen = []

    def forward(self, x):
        self.seen.append(x.size(0))
        return x + len(self.seen)
