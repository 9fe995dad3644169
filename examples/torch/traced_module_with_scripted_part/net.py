import torch


class Gate(torch.nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x * 2
        return x - 1


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = torch.jit.script(Gate())

    def forward(self, x):
        return self.gate(x) + 1
