import torch


def halved(x):
    return x / 2


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
        futures = [torch.jit.fork(halved, x), torch.jit.fork(self.layer, x)]
        return torch.jit.wait(futures[0]) + torch.jit.wait(futures[1])


class Branching(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
        first = torch.jit.fork(halved, x)
        second = torch.jit.fork(self.layer, x)
        if bool(x.sum() > 0):
            return torch.jit.wait(first)
        return torch.jit.wait(first) + torch.jit.wait(second)
