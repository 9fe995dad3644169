import inspect

import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scripted = torch.jit.script(Part())
        assert "assert" in inspect.getsource(type(self))

    def forward(self, x):
        return self.scripted(x)


class Part(torch.nn.Module):
    def forward(self, x):
        return x + 1


scripted = torch.jit.script(Part())
