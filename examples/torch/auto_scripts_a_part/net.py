import torch

FINISHES = {"doubled": lambda x: x * 2}


class Gate(torch.nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x * 2
        return x - 1


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = Gate()

    def forward(self, x):
        return FINISHES["doubled"](self.gate(x))
