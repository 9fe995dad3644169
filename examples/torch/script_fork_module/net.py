import torch


class Add(torch.nn.Module):
    def forward(self, a: torch.Tensor, b: int):
        return a + b


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.add = Add()

    def forward(self, a):
        future = torch.jit.fork(self.add, a, b=2)
        return torch.jit.wait(future)
