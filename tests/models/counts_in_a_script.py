import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(()))
        self.calls = 0
        self.last = torch.zeros(())

    def forward(self, x):
        self.total = self.total + 1
        self.calls += 1
        return x + self.total

    @torch.jit.export
    def count(self, x):
        self.calls += 1
        return x * 2

    @torch.jit.export
    def keep(self, x):
        self.last = x.sum()
        return x * 2


net = torch.jit.script(Net())
